"""Through the shipped nginx.conf: 3,000 connections at once, each of which tries to log in."""

import contextlib

from held_delays import SERVER, request  # noqa: F401

CONNECTIONS, LIMIT = 3000, 5


def attack(attacker):
    nginx, passed, tried = attacker.server.nginx, 0, 0
    while True:
        connections = attacker.many(CONNECTIONS, lambda: attacker.connect(nginx))
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(request(b"/login"))
        for connection in connections:
            with contextlib.suppress(OSError), connection:
                tried += 1
                passed += connection.recv(16) == b"HTTP/1.1 200 OK\r"
        if attacker.over():
            return [f"{passed} of {tried} logins pass, at a limit of {LIMIT}"] * (passed > LIMIT)
