"""A misbehaving caller: an HTTP/2 connection that sends calls with any deadline. It cancels calls
and reads answers at any time. It records the answers, but not the statuses of the calls."""

import contextlib
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/door"))

import http2  # noqa: E402
from sluice.v1 import rate_limiter_pb2 as pb  # noqa: E402

PATH = b"/sluice.v1.RateLimiter/CheckLimit"
CANCEL = b"\0\0\0\x08"


class Caller:
    def __init__(self, address):
        self.sock = http2.connect(address)
        self.sock.sendall(http2.frame(http2.WINDOW_UPDATE, 0, 0, b"\x3f\xff\xff\xff"))
        self.reader = http2.Reader(self.sock)
        self.stream = -1
        self.open = set()
        self.bodies = {}

    def fileno(self):
        return self.sock.fileno()

    def frames(self, request, timeout="", path=PATH):
        """The HEADERS and DATA frames of a new call, on the new stream `self.stream`."""
        self.stream += 2
        headers = http2.request_headers(path)
        if timeout:
            headers += http2.literal(b"grpc-timeout", timeout.encode())
        message = request.SerializeToString()
        body = b"\0" + len(message).to_bytes(4, "big") + message
        return (http2.frame(http2.HEADERS, http2.END_HEADERS, self.stream, headers),
                http2.frame(http2.DATA, http2.END_STREAM, self.stream, body))

    def check(self, request, timeout=""):
        self.sock.sendall(b"".join(self.frames(request, timeout)))
        self.open.add(self.stream)

    def reset(self):
        """Cancels the latest call. If it has already been answered, the answer is still read."""
        self.sock.sendall(http2.frame(http2.RST_STREAM, 0, self.stream, CANCEL))
        self.open.discard(self.stream)

    def answers(self, patience=5):
        """Sends a PING. Reads until it is acknowledged and no call is open. Returns the answers."""
        self.sock.sendall(http2.frame(http2.PING, 0, 0, b"all-done"))
        self.open.add("ping")
        self.sock.settimeout(patience)
        deadline = time.monotonic() + patience
        while self.open:
            assert time.monotonic() < deadline, f"not answered: {sorted(map(str, self.open))[:5]}"
            for kind, flags, stream, payload in self.reader.frames():
                self.take(kind, flags, stream, payload)
        return self.taken()

    def leave(self):
        """Closes the connection. Returns the answers that were sent before the server noticed."""
        self.sock.shutdown(socket.SHUT_WR)
        self.sock.settimeout(5)
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                for kind, flags, stream, payload in self.reader.frames():
                    self.take(kind, flags, stream, payload)
        self.sock.close()
        return self.taken()

    def taken(self):
        bodies, self.bodies = self.bodies, {}
        return [pb.CheckLimitResponse.FromString(body[5:]) for body in bodies.values()]

    def take(self, kind, flags, stream, payload):
        if kind == http2.DATA:
            self.bodies[stream] = self.bodies.get(stream, b"") + payload
        if kind == http2.PING and flags & http2.ACK:
            self.open.discard("ping")
        if kind in (http2.DATA, http2.HEADERS) and flags & http2.END_STREAM:
            self.open.discard(stream)
        if kind == http2.RST_STREAM:
            self.open.discard(stream)
