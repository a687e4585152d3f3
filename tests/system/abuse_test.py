"""Attacks on a real sluiced, over HTTP/1 and HTTP/2. Each is ended or bounded, honest callers are
answered meanwhile, and memory stays bounded.

Usage: abuse_test.py SLUICED PYTHON_PROTO
tests/siege has more.
"""

import pathlib
import resource
import socket
import struct
import sys
import threading
import time
import unittest

SLUICED = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench/door"))

# pylint: disable=wrong-import-position
import http2
import running
from doors import Grpc, api

RULES = """
domain: shop
rules:
  - name: pay
    match: {endpoint: /pay}
    limits: [{algorithm: fixed_window, limit: 100000000, window: 1d}]
"""
# The maximum cost of an attack, for all attackers together: docs/security.md.
MOST_MEMORY = 256 * 1024 * 1024
PATIENCE = 120


def frame(kind, payload=b"", flags=0, stream=0):
    return http2.frame(kind, flags, stream, payload)


POST = b"POST /v1/check HTTP/1.1\r\nHost: x\r\n"
CALL = http2.request_headers(b"/sluice.v1.RateLimiter/CheckLimit")
REQUEST = api.CheckLimitRequest(domain="shop", attributes={"endpoint": "/pay"}).SerializeToString()


def connect(address, first=b""):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
    connection.sendall(first)
    return connection


def send(connection, data):
    """Returns False once the server has closed the connection."""
    try:
        connection.sendall(data)
        return True
    except OSError:
        return False


def end_of(connection):
    """Everything that the server sends until it closes the connection."""
    heard = b""
    try:
        while more := connection.recv(65536):
            heard += more
    except ConnectionError:
        pass
    connection.close()
    return heard


class Honest(threading.Thread):
    """Sends one check after another."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.caller = Grpc(address)
        self.stopped = threading.Event()
        self.times, self.errors = [], []
        self.start()

    def run(self):
        while not self.stopped.is_set():
            began = time.monotonic()
            answer = self.caller.check()
            self.times.append(time.monotonic() - began)
            if isinstance(answer, str):
                self.errors.append(answer)

    def p99(self):
        self.times, times = [], sorted(self.times)
        return times[len(times) * 99 // 100]


class AbuseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        rules = running.directory()
        (rules / "shop.yaml").write_text(RULES, encoding="utf-8")
        cls.sluiced, ready = running.start(
            [SLUICED, "--rules", rules, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            "ready grpc=")
        cls.grpc, cls.http = (ready.split(f"{door}=")[1].split()[0] for door in ("grpc", "http"))
        cls.honest = Honest(cls.grpc)
        running.wait_until(lambda: len(cls.honest.times) > 100, PATIENCE, "honest calls")
        cls.before, cls.memory_before = cls.honest.p99(), cls.memory()

    @classmethod
    def tearDownClass(cls):
        cls.honest.stopped.set()
        cls.honest.join()

    @classmethod
    def memory(cls):
        pages = pathlib.Path(f"/proc/{cls.sluiced.pid}/statm").read_text(encoding="utf-8")
        return int(pages.split()[1]) * 4096

    def setUp(self):
        self.honest.times = []

    def tearDown(self):
        running.wait_until(lambda: len(self.honest.times) > 20, PATIENCE, "honest calls go on")
        p99, grown = self.honest.p99(), self.memory() - self.memory_before
        print(f"{self._testMethodName}: honest p99 {p99 * 1e3:.2f} ms (before "
              f"{self.before * 1e3:.2f}), memory {grown / 1e6:+.1f} MB", file=sys.stderr)
        self.assertEqual(self.honest.errors, [])
        self.assertLess(grown, MOST_MEMORY)

    def http2(self, frames=b""):
        return connect(self.grpc, http2.PREFACE + frame(http2.SETTINGS) + frames)

    def test_zero_windows(self):
        """Answers that are never read."""
        calls = b"".join(http2.call(stream, b"/sluice.v1.RateLimiter/CheckLimit", REQUEST)
                         for stream in range(1, 2001, 2))
        closed = http2.PREFACE + frame(http2.SETTINGS, struct.pack(">HI", 4, 0))
        attackers = [connect(self.grpc, closed + calls) for _ in range(20)]
        running.wait_until(lambda: len(self.honest.times) > 20, PATIENCE, "honest calls")
        for attacker in attackers:
            attacker.close()

    def test_pipelined_requests_whose_answers_nobody_takes(self):
        attackers = [connect(self.http) for _ in range(20)]
        for attacker in attackers:
            attacker.settimeout(1)
            send(attacker, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20000)
        running.wait_until(lambda: len(self.honest.times) > 20, PATIENCE, "honest calls")
        for attacker in attackers:
            attacker.close()

    def test_slow_requests_and_silent_connections_are_ended(self):
        """More connections than HTTP may have: gRPC callers are still accepted."""
        slow = [connect(self.http, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ") for _ in range(300)]
        slow += [connect(self.http, POST + b"Content-Length: 9\r\n\r\n") for _ in range(300)]
        slow += [connect(self.grpc, http2.PREFACE[:10]) for _ in range(300)]
        slow += [connect(self.grpc) for _ in range(100)]
        slow += [self.http2(frame(http2.HEADERS, CALL[:9], 0, 1)) for _ in range(100)]
        idle = [connect(self.http) for _ in range(1500)]
        self.assertEqual(Grpc(self.grpc).check().decision, api.DECISION_ALLOWED)
        self.assertIn("ready", running.get(f"http://{self.http}/readyz"))
        for attacker in slow:
            end_of(attacker)
        for connection in idle:
            connection.close()


if __name__ == "__main__":
    unittest.main(warnings="ignore")
