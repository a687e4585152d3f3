"""The tools of an attack: the server's addresses, connections to them, raw HTTP/2, and a time limit.

An attack is a module with attack(attacker), which returns a list of sentences: what the server did
wrong. attack() runs in a process of the lowest priority. If it puts load on the server, it
continues until attacker.over() is true.
"""

import contextlib
import itertools
import pathlib
import socket
import struct
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "bench/door")]

import http2  # noqa: E402
from http2 import frame, literal  # noqa: E402, F401

CONTINUATION, PRIORITY = 9, 2
PROTOCOL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 1, 8, 11
PATIENCE = 20  # seconds in which the server must answer or close the connection
LIMITER = b"/sluice.v1.RateLimiter/"
HONEST_ADDRESS = "127.0.0.1"
ONE_ADDRESS = ["127.0.0.2"]
MANY_ADDRESSES = [f"127.0.1.{number}" for number in range(1, 65)]


def message(domain="rude", endpoint="/pay", user="1"):
    """A CheckLimitRequest."""
    def field(number, value):
        return bytes((number << 3 | 2, len(value))) + value

    attributes = {"endpoint": endpoint, "user": user}
    return field(1, domain.encode()) + b"".join(
        field(2, field(1, name.encode()) + field(2, value.encode()))
        for name, value in attributes.items())


def text(value):
    """An HPACK string of 127 bytes or more."""
    encoded, rest = b"\x7f", len(value) - 127
    while rest >= 128:
        encoded += bytes((rest % 128 + 128,))
        rest //= 128
    return encoded + bytes((rest,)) + value


def settings(**values):
    """A SETTINGS frame with these values, such as initial_window=0."""
    numbers = {"table": 1, "streams": 3, "initial_window": 4, "frame": 5}
    return frame(http2.SETTINGS, 0, 0, b"".join(
        struct.pack(">HI", numbers[name], value) for name, value in values.items()))


def reset(stream):
    return frame(http2.RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


def send(connection, data):
    """Returns False if the server has closed the connection, or accepts no more bytes."""
    try:
        connection.sendall(data)
        return True
    except OSError:
        return False


def receive_until_end(connection):
    """What the server sends until it closes the connection. None if the connection stays open."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except TimeoutError:
        return None
    except OSError:
        pass
    connection.close()
    return received


def frames_of(received):
    """The type, flags, stream and payload of each complete frame."""
    while len(received) >= 9 + (size := int.from_bytes(received[:3], "big")):
        yield *struct.unpack(">BBI", received[3:9]), received[9:9 + size]
        received = received[9 + size:]


def error_of(received):
    """The error code of the last GOAWAY; None without a GOAWAY."""
    code = None
    for kind, _, _, payload in frames_of(received or b""):
        if kind == http2.GOAWAY:
            code = int.from_bytes(payload[4:8], "big")
    return code


class Attacker:
    def __init__(self, server, begun, stopped, addresses):
        self.server, self.grpc, self.http = server, server.grpc, server.http
        self.token = server.tokens["rude"]
        self.begun, self.stopped = begun, stopped
        self.address_count, self.addresses = len(addresses), itertools.cycle(addresses)

    def over(self, wait=0.0):
        """Waits until the attack's time is over, but at most `wait` seconds (None: without limit).
        Returns whether the attack's time is over. Honest callers start after the first call.
        """
        self.begun.set()
        return self.stopped.wait(wait)

    def connect(self, address, first=b"", receive_buffer=None, patience=PATIENCE):
        host, port = address.rsplit(":", 1)
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(patience)
        connection.bind((next(self.addresses), 0))
        connection.connect((host, int(port)))
        connection.sendall(first)
        return connection

    def http2(self, frames=b"", first=frame(http2.SETTINGS, 0, 0), **options):
        return self.connect(self.grpc, http2.PREFACE + first + frames, **options)

    def many(self, count, connect):
        """Makes `count` connections with `connect`. Returns those that the server accepts."""
        connections = []
        for _ in range(count):
            if self.stopped.is_set():
                break
            with contextlib.suppress(OSError):
                connections.append(connect())
        return connections

    def head(self, method=b"CheckLimit", *fields):
        """The header block of a call with the attacker's token, which is valid for domain rude."""
        return (http2.request_headers(LIMITER + method)
                + literal(b"authorization", b"Bearer " + self.token.encode()) + b"".join(fields))

    def call(self, stream, body=message(), method=b"CheckLimit"):
        """The frames of a call."""
        body = struct.pack(">BI", 0, len(body)) + body
        return (frame(http2.HEADERS, http2.END_HEADERS, stream, self.head(method))
                + b"".join(frame(http2.DATA, 0, stream, body[at:at + 16384])
                           for at in range(0, len(body), 16384))
                + frame(http2.DATA, http2.END_STREAM, stream))

    def ask_http(self, request, address=None, wrap=None):
        """The status of the answer to these bytes; 0 if the connection ends without one."""
        with contextlib.suppress(OSError), self.connect(address or self.http) as connection:
            connection = wrap(connection) if wrap else connection
            connection.sendall(request)
            answer = connection.recv(4096)
            return int(answer[9:12] or 0)
        return 0
