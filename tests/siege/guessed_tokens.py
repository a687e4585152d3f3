"""Guesses of the admin token, over both doors: 3,000 in half a second left no trace."""

import http2
from attacker import frame, frames_of, literal, receive_until_end, send

GUESSES = 1000  # a connection
MOST_A_SECOND = 100


def attack(attacker):
    over_grpc = b"".join(
        frame(http2.HEADERS, http2.END_HEADERS, stream,
              http2.request_headers(b"/sluice.v1.Admin/ListRules")
              + literal(b"authorization", b"Bearer guess-%d" % stream))
        + frame(http2.DATA, http2.END_STREAM, stream, bytes(5))
        for stream in range(1, 2 * GUESSES, 2)) + frame(http2.GOAWAY, 0, 0, bytes(8))
    over_http = b"".join(
        b"GET /rules HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer guess-%d\r\n\r\n" % guess
        for guess in range(GUESSES))
    while not attacker.over():
        connection = attacker.http2()
        send(connection, over_grpc)
        receive_until_end(connection)
        connection = attacker.connect(attacker.http, patience=1)
        send(connection, over_http)
        receive_until_end(connection)
    log = attacker.server.log()
