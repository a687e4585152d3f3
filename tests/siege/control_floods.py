"""Floods of PING and SETTINGS, each of which requires an answer."""

import http2
from attacker import ENHANCE_YOUR_CALM, error_of, frame, receive_until_end, send, settings

FLOODS = (frame(http2.PING, 0, 0, b"12345678"), frame(http2.SETTINGS, 0, 0),
          settings(initial_window=65535))


def attack(attacker):
    while not attacker.over():
        for flood in FLOODS:
            connection = attacker.http2()
            send(connection, flood * 20_000)
            if error_of(receive_until_end(connection)) != ENHANCE_YOUR_CALM:
                return [f"a flood of frames of type {flood[3]} is not refused"]
