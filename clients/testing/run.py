#!/usr/bin/python3
"""Runs one client's example against real servers, and tests what every client promises.

Usage: run.py BIN COMMAND...      BIN: folder of sluiced and sluice; COMMAND: runs the example

The example has these commands (clients/python/example.py describes them): pay, first, crowd, queue,
modes, ask, export, reserve, settle, outcomes and serve. The promises of a client in any language:

  a decorated method is limited, and a denial says when to retry
  the first check after a start is answered within the default deadline
  50 threads get exactly what a limit allows
  units are charged and given back
  a client that accepts a wait starts after the wait
  if the server is silent or killed, calls are allowed (open) or denied (closed); after its restart,
    the server decides
  if a server hangs, the client leaves its connection
  if a connection breaks, a check is not sent twice, but a release is sent again
  a lease is renewed while the work lasts, and released if the work fails or its request is
    canceled; after a crash, its slot becomes free
  a reservation is settled with what was used, even if the work fails; its lease is renewed; if not
    enough units are left for a further part, the part is denied; a settled reservation gets no
    further part
  if the server is killed, a settlement is repeated until the restarted server stores it
  a settlement is not repeated for longer than the configured time, and at most the configured
    number of settlements wait
  an adaptive limit learns how the work went: from the work's error, from reports, and from the
    process's own load
  over HTTP, a denial is 429 with Retry-After, and answers to limited requests have RateLimit; over
    gRPC, an interceptor answers RESOURCE_EXHAUSTED; if no server answers, the answers are 503 and
    UNAVAILABLE
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import grpc

RULES = pathlib.Path(__file__).with_name("rules")
BIN, EXAMPLE = pathlib.Path(sys.argv[1]), sys.argv[2:]
# The commands that limit a method. A language may have several such commands.
PAY = os.environ.get("PAY_COMMANDS", "pay").split()
# The commands that reserve.
RESERVE = os.environ.get("RESERVE_COMMANDS", "reserve").split()
STARTS = int(os.environ.get("STARTS", "3"))  # the number of processes that each make one check
SOON = 300  # seconds; long, because the machine may be busy


class Sluiced:
    """A server that can be killed and started again at its address."""

    def __init__(self, test, *settings):
        self._command = [BIN / "sluiced", "--rules", RULES, "--http", "127.0.0.1:0",
                         "--admin", "off", "--drain", "1ms", *settings]
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
        self.http_port = int(line.split("http=")[1].split()[0].rsplit(":", 1)[1])
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    @contextlib.contextmanager
    def silenced(self):
        """While the block runs, the server answers nothing. Then it answers all pending calls."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until all its threads have stopped
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()


def redis(test):
    """Starts a Redis. Returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    test.addCleanup(process.wait)
    test.addCleanup(process.kill)

    def listens():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    wait_until(listens, "Redis listens")
    return f"redis://127.0.0.1:{port}"


class Line:
    """A proxy between clients and a server. It can break the connections."""

    def __init__(self, test, address):
        self.lead_to(address)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listening.getsockname()[1]
        self._pairs = []
        self._lost = False  # whether to lose the data that clients send
        self._awaited, self._seen = b"", b""
        self._sent = threading.Event()  # set when clients have sent the awaited data
        test.addCleanup(self._listening.close)
        test.addCleanup(self.break_off)
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, address):
        """Connects clients that connect from now on to the server of this address."""
        host, port = address.split(":")
        self._server = (host, int(port))

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self._listening.accept()[0]
                server = socket.create_connection(self._server)
                self._pairs.append((client, server))
                threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source, sink, from_client):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not (from_client and self._lost):
                    sink.sendall(data)
                if from_client:
                    self._seen += data
                    if self._awaited in self._seen:
                        self._sent.set()

    @contextlib.contextmanager
    def breaking(self, lost, awaited=b""):
        """After the block, waits until the client has sent data that contains `awaited`, and breaks
        the connection. If `lost`, the server does not get the data."""
        self._awaited, self._seen = awaited, b""
        self._sent.clear()
        self._lost = lost
        yield
        assert self._sent.wait(SOON)
        self._lost = False
        self.break_off(both=lost)

    def break_off(self, both=True):
        """Ends the connections of clients. If `both`, also ends the connections to the server;
        otherwise the server still gets the bytes that were sent."""
        for client, server in self._pairs:
            for end in (client, server) if both else (client,):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


class Example:
    """A process that runs one command of the example."""

    def __init__(self, test, command, address, *arguments):
        self.process = subprocess.Popen([*EXAMPLE, command, address, *arguments], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def line(self):
        return self.process.stdout.readline().strip()

    def say(self, line):
        self.hear(line)
        return self.line()

    def hear(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def output(self):
        """Waits until the example has ended, which must succeed."""
        output = self.process.communicate(timeout=SOON)[0]
        assert self.process.returncode == 0, f"exit status {self.process.returncode}"
        return output


def wait_until(condition, what):
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not done within {SOON} s: {what}")


def peek(address, *attributes):
    """The answer to a check that takes nothing."""
    answer = subprocess.run([BIN / "sluice", "check", "shop", *attributes, "--peek", "--json",
                             "--addr", address, "--timeout", "20s"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, check=False).stdout
    return json.loads(answer)


def slot_ends_in(address, *attributes):
    """Seconds until the slot is free, unless its lease is renewed; 0: it is free."""
    answer = peek(address, *(attributes or ["endpoint=/export"]))
    return float(answer.get("retryAfter", "0s").rstrip("s"))


def tokens_left(address, user):
    return int(peek(address, "endpoint=/model", f"user={user}")["limits"][0].get("remaining", 0))


def get(port, path, source="127.0.0.1"):
    """Status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, SOON, (source, 0))
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


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

    def test_the_first_check_after_a_start_is_answered(self):
        answers = [self.example("first").output().strip() for _ in range(STARTS)]
        self.assertEqual(answers, ["allowed by Sluice"] * STARTS)

    def test_units_are_charged_and_given_back(self):
        self.assertEqual(self.example("modes").output().strip(), "7")

    def test_a_check_whose_connection_breaks_is_not_sent_twice(self):
        line = Line(self, self.sluiced.address)
        asking = Example(self, "ask", line.address, "open")
        self.assertEqual(asking.say("?"), "allowed by Sluice")
        with self.sluiced.silenced(), line.breaking(lost=False, awaited=b"/browse"):
            asking.hear("?")
        self.assertEqual(asking.line(), "allowed without an answer")
        used = lambda: 100_000 - int(peek(self.sluiced.address, "endpoint=/browse")["limits"][0]["remaining"])
        wait_until(lambda: used() >= 2, "the server gets the check")
        self.assertEqual(used(), 2)

    def test_a_release_whose_connection_breaks_is_sent_again(self):
        line = Line(self, self.sluiced.address)
        holder = Example(self, "export", line.address)
        self.assertEqual(holder.line(), "held")
        with line.breaking(lost=True):
            holder.process.stdin.close()
        self.assertEqual(holder.line(), "released")
        holder.process.wait(SOON)
        self.assertEqual(slot_ends_in(self.sluiced.address), 0)

    def test_50_threads_get_exactly_the_limit(self):
        self.assertEqual(self.example("crowd", "50", "10").output().strip(), "300")

    def test_a_client_that_accepts_a_wait_starts_after_the_wait(self):
        milliseconds = int(self.example("queue", "3").output())
        self.assertGreaterEqual(milliseconds, 999)  # the first at once, two more at 2/s

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

    def test_a_server_that_hangs_is_left(self):
        line = Line(self, self.sluiced.address)
        asking = Example(self, "ask", line.address, "open")
        self.assertEqual(asking.say("?"), "allowed by Sluice")
        line.lead_to(Sluiced(self).address)
        with self.sluiced.silenced():
            self.assertEqual(asking.say("?"), "allowed without an answer")
            wait_until(lambda: asking.say("?") == "allowed by Sluice", "the other server decides")

    def test_a_lease_is_renewed_during_work_and_released_if_the_work_fails(self):
        holder = self.example("export")
        self.assertEqual(holder.line(), "held")
        for _ in range(2):
            self.wait_for_renewal(self.sluiced)
        self.assertEqual(self.example("export").line(), "denied")
        self.assertEqual(holder.output().split(), ["released"])
        self.assertEqual(slot_ends_in(self.sluiced.address), 0)

    def wait_for_renewal(self, sluiced, *attributes):
        left = slot_ends_in(sluiced.address, *attributes)

        def renewed():
            nonlocal left
            before, left = left, slot_ends_in(sluiced.address, *attributes)
            self.assertGreater(left, 0, "the lease has ended")
            return left > before

        wait_until(renewed, "the lease is renewed")

    def test_a_slot_is_free_after_a_crash_of_its_holder(self):
        holder = self.example("export")
        self.assertEqual(holder.line(), "held")
        self.assertGreater(slot_ends_in(self.sluiced.address), 0)
        holder.process.send_signal(signal.SIGKILL)
        wait_until(lambda: slot_ends_in(self.sluiced.address) == 0, "the slot is free")

    def test_a_reservation_is_settled_with_what_was_used(self):
        for command in RESERVE:
            with self.subTest(command):
                self.assertEqual(self.example(command, command).output().split(), ["denied"])
                self.assertEqual(tokens_left(self.sluiced.address, command), 1000 - 450 - 50 - 20)
                self.assertEqual(slot_ends_in(self.sluiced.address, "endpoint=/model", f"user={command}"), 0)

    def test_an_adaptive_limit_learns_how_the_work_went(self):
        self.assertEqual(self.example("outcomes").output().split(), ["done"])
        page = get(self.sluiced.http_port, "/metrics")[2].decode()
        holds = dict(re.findall(r'sluice_adaptive_holds_total{.*result="(\w+)".*} (\d+)', page))
        self.assertEqual(holds, {"in_time": "1", "too_slow": "1", "overload": "4", "ignored": "2"})

    def test_a_settlement_is_repeated_until_the_restarted_server_stores_it(self):
        sluiced = Sluiced(self, "--redis", redis(self), "--redis-timeout", "1m")
        settling = Example(self, "settle", sluiced.address, "ann", "60000", "600000", "10")
        self.assertEqual(settling.line(), "held")
        self.assertEqual(tokens_left(sluiced.address, "ann"), 600)
        for _ in range(2):
            self.wait_for_renewal(sluiced, "endpoint=/model", "user=ann")
        sluiced.kill()
        self.assertEqual(settling.say("settle"), "settled")
        sluiced.start()
        self.assertEqual(settling.line(), "0 lost")
        self.assertEqual(tokens_left(sluiced.address, "ann"), 900)
        self.assertEqual(slot_ends_in(sluiced.address, "endpoint=/model", "user=ann"), 0)

    def settle_without_a_server(self, *bounds):
        """Returns the last line of the example, which starts two settlements: one for each part."""
        settling = self.example("settle", "ann", *bounds)
        self.assertEqual(settling.line(), "held")
        self.sluiced.kill()
        self.assertEqual(settling.say("settle"), "settled")
        return settling.line()

    def test_settlements_not_stored_within_the_drain_time_are_reported_as_lost(self):
        self.assertEqual(self.settle_without_a_server("1", "600000", "10"), "2 lost")

    def test_settlements_not_stored_within_the_configured_time_are_lost(self):
        self.assertEqual(self.settle_without_a_server("600000", "1", "10"), "2 lost")

    def test_settlements_beyond_the_configured_number_are_lost(self):
        settling = self.example("settle", "ann", "60000", "600000", "1")
        self.assertEqual(settling.line(), "held")
        with self.sluiced.silenced():
            self.assertEqual(settling.say("settle"), "settled")
        self.assertEqual(settling.line(), "1 lost")
        self.assertEqual(tokens_left(self.sluiced.address, "ann"), 1000 - 100 - 100)

    def serve(self):
        line = self.example("serve").line()
        self.assertTrue(line, "the example does not serve")
        return dict(word.split("=") for word in line.split())

    def serve_http(self):
        """For each way to limit HTTP: its port, and a source address that no other way uses."""
        ports = self.serve()
        if not any(name.startswith("http") for name in ports):
            self.skipTest("this client has no HTTP middleware")
        for index, name in enumerate(sorted(ports)):
            if name.startswith("http"):
                with self.subTest(name):
                    yield int(ports[name]), f"127.0.0.{2 + index}"

    def serve_grpc(self):
        """For each way to write a service: its name, a channel to its server, and the method of a
        stream in both directions, if the example has one."""
        ports = self.serve()
        if not any(name.startswith("grpc") for name in ports):
            self.skipTest("this client has no gRPC interceptor")
        for name in sorted(ports):
            if name.startswith("grpc"):
                with grpc.insecure_channel(f"127.0.0.1:{ports[name]}") as channel:
                    yield name, channel, ports.get("stream")

    def test_http_is_limited_with_headers(self):
        for port, me in self.serve_http():
            status, headers, body = get(port, "/limited", me)
            self.assertEqual((status, body), (200, b"welcome\n"))
            self.assertEqual(headers["RateLimit-Policy"], '"welcome";q=1')
            self.assertRegex(headers["RateLimit"], r'^"welcome";r=0;t=8\d{4}$')
            status, headers, _ = get(port, "/limited", me)
            self.assertEqual(status, 429)
            self.assertRegex(headers["Retry-After"], r"^8\d{4}$")
            self.assertRegex(headers["RateLimit"], r'^"welcome";r=0;t=8\d{4}$')
            status, _, _ = get(port, "/limited/%ff", me)  # not UTF-8; some clients decode it
            self.assertIn(status, (400, 429, 500))
            self.assertEqual(get(port, "/free", me)[0], 200)

    def test_without_a_server_http_answers_503_and_grpc_answers_unavailable(self):
        ports = self.serve()
        self.assertTrue(ports)
        self.sluiced.kill()
        for name, port in ports.items():
            if name.startswith("http"):
                self.assertEqual(get(int(port), "/free")[0], 503, name)
            elif name.startswith("grpc"):
                with (grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
                      self.assertRaises(grpc.RpcError) as refused):
                    channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=SOON)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE, name)

    def test_a_canceled_http_request_gives_its_slot_back(self):
        for port, _ in self.serve_http():
            get(port, "/free")  # Sluice is connected
            with self.sluiced.silenced(), socket.create_connection(("127.0.0.1", port)) as gone:
                gone.sendall(b"GET /report HTTP/1.1\r\nHost: shop\r\n\r\n")
                gone.settimeout(0.3)
                self.assertRaises(socket.timeout, gone.recv, 1)
            answered = lambda: get(port, "/report")[0] == 200
            wait_until(answered, "the canceled request gives its slot back")
            wait_until(answered, "the answered request gives its slot back, too")

    def test_a_canceled_grpc_call_gives_its_slot_back(self):
        for _, channel, _ in self.serve_grpc():
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            with contextlib.suppress(grpc.RpcError):
                check(b"", timeout=SOON, metadata=[("user", "ann")])  # Sluice is connected
            export = [("user", "export")]
            with self.sluiced.silenced(), self.assertRaises(grpc.RpcError) as canceled:
                check(b"", timeout=0.5, metadata=export)
            self.assertEqual(canceled.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

            def answered():
                try:
                    return check(b"", timeout=SOON, metadata=export)
                except grpc.RpcError as denied:
                    self.assertEqual(denied.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                    return None

            wait_until(answered, "the canceled call gives its slot back")
            wait_until(answered, "the answered call gives its slot back, too")

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
