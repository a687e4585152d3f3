"""A bare HTTP/2 client for measurements: bytes on a socket, no header compression, no library."""

import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field in HPACK's simplest form: literal, not indexed (RFC 7541, 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request_headers(path):
    return b"".join(literal(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path),
        (b":authority", b"sluice"), (b"te", b"trailers"),
        (b"content-type", b"application/grpc")))


def call(stream, path, message):
    """The frames of a whole unary call."""
    body = struct.pack(">BI", 0, len(message)) + message
    return (frame(HEADERS, END_HEADERS, stream, request_headers(path))
            + frame(DATA, END_STREAM, stream, body))


def connect(address, tls=None):
    """Connects and sends the preface. `tls`: an ssl.SSLContext, or None for plain TCP."""
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls:
        sock = tls.wrap_socket(sock, server_hostname="localhost")
    sock.sendall(PREFACE + frame(SETTINGS, 0, 0))
    return sock


def client_tls(ca):
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    return context


class Reader:
    """Reads frames from a socket."""

    def __init__(self, sock):
        self.sock = sock
        self.heard = b""

    def frames(self):
        """Reads once. Returns the complete frames. Raises EOFError if the server has closed."""
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise EOFError("the server has closed the connection")
        self.heard += piece
        found = []
        while len(self.heard) >= 9:
            size = int.from_bytes(self.heard[:3], "big")
            if len(self.heard) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self.heard[3:9])
            found.append((kind, flags, stream, self.heard[9:9 + size]))
            self.heard = self.heard[9 + size:]
        return found

    def wait_for(self, wanted):
        """Reads until the condition was true for N frames. `wanted`: (N, condition)."""
        count, holds = wanted
        while count > 0:
            count -= sum(1 for kind, flags, _, _ in self.frames() if holds(kind, flags))
