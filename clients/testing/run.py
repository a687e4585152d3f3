#!/usr/bin/python3
"""Runs one client's example against real servers, and tests the promises of every client.

Usage: run.py BIN COMMAND...      BIN: folder of sluiced and sluice; COMMAND: the example

The example has these commands (clients/python/example.py describes them): pay, crowd, queue, ask, export
and serve. What is checked, for every language:

  a decorated method is limited, and learns when to retry
  50 threads get exactly what a limit allows
  a client that accepts a wait starts after it
  a server that is silent or killed: calls are allowed (open) or denied (closed), and its successor
    decides
  a lease is kept while the work lasts, released if it fails or its request is cancelled, and free
  after a crash
  HTTP: 429 with Retry-After, RateLimit on every answer; gRPC: RESOURCE_EXHAUSTED, by an interceptor
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

import grpc

RULES = pathlib.Path(__file__).with_name("rules")
BIN, EXAMPLE = pathlib.Path(sys.argv[1]), sys.argv[2:]
# The commands that limit a method, of which a language may have several.
PAY = os.environ.get("PAY_COMMANDS", "pay").split()
SOON = 300  # seconds: a busy machine is no failure


class Sluiced:
    """A server that can be killed and started again at its address."""

    def __init__(self, test):
        self._command = [BIN / "sluiced", "--rules", RULES, "--http", "127.0.0.1:0",
                         "--admin", "off", "--drain", "1ms"]
        self.address = "127.0.0.1:0"
        self.start()
        test.addCleanup(self.kill)

    def start(self):
        self._process = subprocess.Popen(
            [*self._command, "--grpc", self.address], text=True, stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        lines = []
        for line in self._process.stderr:
            if "ready grpc=" in line:
                break
            lines.append(line)
        else:
            raise RuntimeError("sluiced ended before it was ready: " + "".join(lines))
        self.address = line.split("grpc=")[1].split()[0]
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    @contextlib.contextmanager
    def silenced(self):
        """The server answers nothing meanwhile, and all pending calls at the end."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until all its threads have stopped
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()


class Example:
    """The example with one of its commands."""

    def __init__(self, test, command, address, *arguments):
        self.process = subprocess.Popen([*EXAMPLE, command, address, *arguments], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def line(self):
        return self.process.stdout.readline().strip()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.line()

    def output(self):
        return self.process.communicate(timeout=SOON)[0]


def wait_until(condition, what):
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {SOON} s: {what}")


def slot_ends_in(address):
    """Seconds until the slot of /export is free if nobody renews its lease. Takes nothing."""
    answer = subprocess.run([BIN / "sluice", "check", "shop", "endpoint=/export", "--peek", "--json",
                             "--addr", address, "--timeout", "20s"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, check=False).stdout
    return float(json.loads(answer).get("retryAfter", "0s").rstrip("s"))


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.sluiced = Sluiced(self)

    def example(self, command, *arguments):
        return Example(self, command, self.sluiced.address, *arguments)

    def test_a_limited_method_is_denied_with_the_time_to_retry(self):
        for command in PAY:
            with self.subTest(command):
                ann, *others = (f"{command}-{index}" for index in range(500))
                lines = self.example(command, ann, ann, *others).output().splitlines()
                self.assertEqual(lines[0], f"{ann} has paid")
                self.assertRegex(lines[1], rf"^{ann} is denied, retry in 8\d{{4}} s$")
                self.assertEqual(lines[2:], [f"{other} has paid" for other in others])

    def test_50_threads_get_exactly_the_limit(self):
        self.assertEqual(self.example("crowd", "50", "10").output().strip(), "300")

    def test_a_client_that_accepts_a_wait_starts_when_its_turn_comes(self):
        milliseconds = int(self.example("queue", "3").output())
        self.assertGreaterEqual(milliseconds, 999)  # one at once, two at 2/s

    def test_without_a_server_the_client_decides(self):
        for policy, fallback in ("open", "allowed"), ("closed", "denied"):
            with self.subTest(policy):
                asking = self.example("ask", policy)
                decided = lambda: asking.say("?") == "allowed by Sluice"
                wait_until(decided, "the server decides")
                with self.sluiced.silenced():  # until the deadline
                    self.assertEqual(asking.say("?"), f"{fallback} without an answer")
                wait_until(decided, "the server decides again")
                self.sluiced.kill()
                for _ in range(3):
                    self.assertEqual(asking.say("?"), f"{fallback} without an answer")
                self.sluiced.start()
                wait_until(decided, "the next server decides")

    def test_a_lease_is_kept_and_given_back_if_the_work_fails(self):
        holder = self.example("export")
        self.assertEqual(holder.line(), "held")
        for _ in range(2):
            self.wait_for_renewal()
        self.assertEqual(self.example("export").line(), "denied")
        self.assertEqual(holder.output().split(), ["released"])
        self.assertEqual(slot_ends_in(self.sluiced.address), 0)

    def wait_for_renewal(self):
        left = slot_ends_in(self.sluiced.address)

        def renewed():
            nonlocal left
            before, left = left, slot_ends_in(self.sluiced.address)
            self.assertGreater(left, 0, "the lease has ended")
            return left > before

        wait_until(renewed, "the lease is renewed")

    def test_a_lease_is_free_after_a_crash(self):
        holder = self.example("export")
        self.assertEqual(holder.line(), "held")
        self.assertGreater(slot_ends_in(self.sluiced.address), 0)
        holder.process.send_signal(signal.SIGKILL)
        wait_until(lambda: slot_ends_in(self.sluiced.address) == 0, "the slot is free")

    def serve(self):
        line = self.example("serve").line()
        return dict(word.split("=") for word in line.split())

    def serve_grpc(self):
        """The names and channels of the servers; one for each way to write a service."""
        ports = self.serve()
        for name in sorted(ports):
            if name.startswith("grpc"):
                with grpc.insecure_channel(f"127.0.0.1:{ports[name]}") as channel:
                    yield name, channel, ports.get("stream")

    def test_http_is_limited_with_headers(self):
        ports = self.serve()
        if "http" not in ports:
            self.skipTest("this client has no HTTP middleware")
        url = f"http://127.0.0.1:{ports['http']}/limited"
        with urllib.request.urlopen(url, timeout=SOON) as answer:
            self.assertEqual(answer.read(), b"welcome\n")
            self.assertEqual(answer.headers["RateLimit-Policy"], '"welcome";q=1')
            self.assertRegex(answer.headers["RateLimit"], r'^"welcome";r=0;t=8\d{4}$')
        with self.assertRaises(urllib.error.HTTPError) as denied:
            urllib.request.urlopen(url, timeout=SOON)
        self.assertEqual(denied.exception.code, 429)
        self.assertRegex(denied.exception.headers["Retry-After"], r"^8\d{4}$")
        self.assertRegex(denied.exception.headers["RateLimit"], r'^"welcome";r=0;t=8\d{4}$')
        with self.assertRaises(urllib.error.HTTPError) as denied:
            urllib.request.urlopen(f"{url}/%ff", timeout=SOON)  # not UTF-8 in those that decode it
        self.assertIn(denied.exception.code, (429, 500))
        with urllib.request.urlopen(url.replace("/limited", "/free"), timeout=SOON) as answer:
            self.assertEqual(answer.status, 200)

    def test_an_http_request_that_is_cancelled_gives_its_slot_back(self):
        ports = self.serve()
        if "http" not in ports:
            self.skipTest("this client has no HTTP middleware")
        url = f"http://127.0.0.1:{ports['http']}"
        urllib.request.urlopen(f"{url}/free", timeout=SOON).close()  # Sluice is connected
        with self.sluiced.silenced(), socket.create_connection(("127.0.0.1", ports["http"])) as gone:
            gone.sendall(b"GET /report HTTP/1.1\r\nHost: shop\r\n\r\n")
            gone.settimeout(0.3)
            self.assertRaises(socket.timeout, gone.recv, 1)

        def answered():
            try:
                with urllib.request.urlopen(f"{url}/report", timeout=SOON):
                    return True
            except urllib.error.HTTPError as denied:
                denied.close()
                return False

        wait_until(answered, "the cancelled request gives its slot back")
        wait_until(answered, "the one that was answered gives it back, too")

    def test_a_grpc_call_that_is_cancelled_gives_its_slot_back(self):
        for _, channel, _ in self.serve_grpc():
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            with contextlib.suppress(grpc.RpcError):
                check(b"", timeout=SOON, metadata=[("user", "ann")])  # Sluice is connected
            export = [("user", "export")]
            with self.sluiced.silenced(), self.assertRaises(grpc.RpcError) as cancelled:
                check(b"", timeout=0.5, metadata=export)
            self.assertEqual(cancelled.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

            def answered():
                try:
                    return check(b"", timeout=SOON, metadata=export)
                except grpc.RpcError as denied:
                    self.assertEqual(denied.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                    return None

            wait_until(answered, "the cancelled call gives its slot back")
            wait_until(answered, "the one that was answered gives it back, too")

    def assert_denied(self, error):
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertGreater(int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"]), 80_000_000)

    def test_grpc_is_limited_by_the_interceptor(self):
        for name, channel, _ in self.serve_grpc():
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            for user in "ann", "bob":
                metadata = [("user", f"{name}-{user}")]
                self.assertEqual(check(b"", timeout=SOON, metadata=metadata), b"\x08\x01")
                with self.assertRaises(grpc.RpcError) as denied:
                    check(b"", timeout=SOON, metadata=metadata)
                self.assert_denied(denied.exception)

    def test_grpc_streams_are_limited_by_the_interceptor(self):
        for name, channel, both_ways in self.serve_grpc():
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
            streams = [lambda metadata: watch(b"", timeout=SOON, metadata=metadata)]
            if both_ways:
                talk = channel.stream_stream(both_ways)
                streams.append(lambda metadata: talk(iter([b"", b""]), timeout=SOON, metadata=metadata))
            for index, stream in enumerate(streams):
                metadata = [("user", f"{name}-{index}")]
                admitted = stream(metadata)
                self.assertIsNotNone(next(admitted))
                with self.assertRaises(grpc.RpcError) as denied:
                    next(stream(metadata))
                self.assert_denied(denied.exception)
                admitted.cancel()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")
