"""Guesses of the admin token over gRPC and HTTP. The server must log that tokens are wrong, and
judge only some of the guesses.
"""

import time

import http2
from attacker import frame, literal, receive_until_end, send

GUESSES = 500  # a connection
MOST_A_SECOND = 100  # from one address


def attack(attacker):
    over_grpc = b"".join(
        frame(http2.HEADERS, http2.END_HEADERS, stream,
              http2.request_headers(b"/sluice.v1.Admin/ListRules")
              + literal(b"authorization", b"Bearer guess-%d" % stream))
        + frame(http2.DATA, http2.END_STREAM, stream, bytes(5))
        for stream in range(1, 2 * GUESSES, 2)) + frame(http2.GOAWAY, 0, 0, bytes(8))
    over_http = b"".join(
        b"GET /rules HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer guess-%d\r\n\r\n" % guess
        for guess in range(GUESSES)) + b"GET / HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n"
    begin, judged = time.monotonic(), 0
    while not attacker.over():
        with attacker.http2(patience=1) as connection:
            send(connection, over_grpc)
            receive_until_end(connection)
        with attacker.connect(attacker.http, patience=1) as connection:
            send(connection, over_http)
            judged += (receive_until_end(connection) or b"").count(b"HTTP/1.1 401")
    most = MOST_A_SECOND * (time.monotonic() - begin) * attacker.address_count
    if judged > most:
        yield f"{judged} guesses are judged over HTTP, more than {most:.0f}"
    if "has sent a wrong admin token" not in attacker.server.log():
        yield "the log does not mention wrong admin tokens"
