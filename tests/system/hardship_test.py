"""sluiced in hardship: with low limits of file descriptors and connections, with a log that nobody
reads, and with a Redis that hangs during the shutdown.

Usage: hardship_test.py SLUICE SLUICED
"""

import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

import running

SLUICE, SLUICED = sys.argv[1:3]
del sys.argv[1:]

RULES = """
domain: shop
rules:
  - name: site
    limits: [{algorithm: fixed_window, limit: 1000000, window: 1h}]
"""


def check(grpc, *arguments):
    """Returns the exit status of `sluice check`: 0 if the check was allowed."""
    return subprocess.run([SLUICE, "check", "shop", "--addr", grpc, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          check=False).returncode


def command(*flags):
    folder = running.directory()
    (folder / "shop.yaml").write_text(RULES, encoding="utf-8")
    return [SLUICED, "--rules", folder, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--admin", "off", *flags]


def address(name, line):
    return re.search(rf"\b{name}=(\S+)", line)[1]


def connect(where):
    host, port = where.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def closed(connections):
    """How many of the connections the server has closed. Discards the bytes that it has sent."""
    readable, _, _ = select.select(connections, [], [], 0)
    return sum(not connection.recv(4096) for connection in readable)


def fill(pipe):
    """Fills the pipe, so that writes to it block."""
    # Opens the pipe again, so that O_NONBLOCK does not apply to the server's descriptor.
    other = os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(other, b"." * 4096)
    except BlockingIOError:
        pass
    finally:
        os.close(other)


class HardshipTest(unittest.TestCase):
    def test_idle_http_clients_do_not_block_grpc_callers(self):
        few = (400, 400)
        _, ready = running.start(
            command(), "ready grpc=",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))
        http = [connect(address("http", ready)) for _ in range(450)]
        self.addCleanup(lambda: [sock.close() for sock in http])
        self.assertEqual(check(address("grpc", ready)), 0)

    def test_grpc_connections_do_not_block_probes(self):
        few = (400, 400)
        server, ready = running.start(
            command(), "ready grpc=",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))
        grpc = [connect(address("grpc", ready)) for _ in range(450)]
        self.addCleanup(lambda: [sock.close() for sock in grpc])
        page = f"http://{address('http', ready)}"

        def refused():
            metrics = running.get(f"{page}/metrics")
            return sum(map(int, re.findall(
                r'^sluice_grpc_refused_total\{reason="(?:connections|replaced)"\} (\d+)',
                metrics, re.M)))

        running.wait_until(lambda: refused() > 200, 10, "refused and replaced connections are counted")
        self.assertIn("ready", running.get(f"{page}/readyz"))
        running.wait_until(lambda: "refused or ended: " in "".join(server.heard), 10, "logged")
        self.assertNotIn("cannot accept", "".join(server.heard))

    def test_the_exit_status_is_1_if_an_address_is_in_use(self):
        _, ready = running.start(command(), "ready grpc=")
        second = subprocess.run(command("--grpc", address("grpc", ready)), stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn("Address already in use", second.stderr)
        told = subprocess.run([SLUICED, "--help"], capture_output=True, text=True, check=True).stdout
        self.assertIn("1 if sluiced cannot run (such as an address in use)", told)

    def test_max_connections_bounds_grpc_and_http_together(self):
        _, ready = running.start(command("--max-connections", "8"), "ready grpc=")
        http = [connect(address("http", ready)) for _ in range(20)]
        self.addCleanup(lambda: [sock.close() for sock in http])
        kept = [connect(address("grpc", ready)) for _ in range(5)]
        self.addCleanup(lambda: [sock.close() for sock in kept])
        self.assertEqual(check(address("grpc", ready)), 0,
                         "the sixth gRPC connection; two of the 8 connections are for HTTP")
        running.wait_until(lambda: closed(http) == 18, 5, "all HTTP connections but two are closed")
        kept += [connect(address("grpc", ready)) for _ in range(2)]
        # The server waits longer than 5 s before it closes a connection for its missing preface.
        running.wait_until(lambda: closed(kept), 5, "a gRPC connection makes room for another")

    def test_a_blocked_log_delays_no_check(self):
        folder = running.directory()
        _, url = running.start_redis(folder)
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        server = subprocess.Popen(command("--redis", url), stdin=subprocess.DEVNULL,
                                  stderr=write_end)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        heard = b""
        while b"ready grpc=" not in heard:
            heard += os.read(read_end, 65536)
        fill(write_end)
        os.close(write_end)
        # The io threads log that their connections to Redis are lost.
        for _ in range(2):
            subprocess.run(["redis-cli", "-s", folder / "redis.sock", "client", "kill", "type",
                            "normal"],
                           stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=10)
            running.wait_until(lambda: check(address("grpc", heard.decode())) == 0, 10,
                               "a check is decided")

    def test_a_hanging_redis_does_not_prolong_the_drain(self):
        folder = running.directory()
        redis, url = running.start_redis(folder)
        server, ready = running.start(
            command("--redis", url, "--drain", "1s", "--redis-timeout", "20s"), "ready grpc=")
        grpc = address("grpc", ready)
        self.assertEqual(check(grpc), 0)
        redis.send_signal(signal.SIGSTOP)
        self.addCleanup(redis.send_signal, signal.SIGCONT)
        caller = subprocess.Popen([SLUICE, "check", "shop", "--addr", grpc, "--timeout", "30s"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(caller.wait)
        self.addCleanup(caller.kill)
        self.wait_for_call(ready)
        begin = time.monotonic()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(timeout=15), 0)
        self.assertLess(time.monotonic() - begin, 5)

    def wait_for_call(self, ready):
        page = f"http://{address('http', ready)}/metrics"
        running.wait_until(
            lambda: re.search(r"^sluice_grpc_calls_open [1-9]", running.get(page), re.M), 10,
            "a call under way")


if __name__ == "__main__":
    unittest.main()
