"""Two rules of HTTP/2. After the caller's GOAWAY, the server answers a PING or closes the
connection. PRIORITY on stream 0 ends the connection.
"""

import http2
from attacker import PRIORITY, PROTOCOL_ERROR, error_of, frame, receive_until_end

AT_ONCE = 3  # seconds


def attack(attacker):
    goodbye = frame(http2.GOAWAY, 0, 0, bytes(8)) + frame(http2.PING, 0, 0, b"12345678")
    call = frame(http2.HEADERS, http2.END_HEADERS, 1, attacker.head())
    while True:
        for before in (b"", call):
            connection = attacker.http2(before, patience=AT_ONCE)
            reader = http2.Reader(connection)
            reader.wait_for((2, lambda kind, _: kind == http2.SETTINGS))
            connection.sendall(goodbye)
            try:
                reader.wait_for((1, lambda kind, _: kind == http2.PING))
            except TimeoutError:
                return [f"no answer to PING after GOAWAY{' with an open call' if before else ''}"]
            except (EOFError, OSError):
                pass
        broken = attacker.http2(frame(PRIORITY, 0, 0, bytes(5)), patience=AT_ONCE)
        if error_of(receive_until_end(broken)) != PROTOCOL_ERROR:
            return ["PRIORITY on stream 0 is not a connection error"]
        if attacker.over(0.1):
            return []
