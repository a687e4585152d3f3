"""Over HTTP: 1,024 connections from one address, none of which reads its answer of 700 KB."""

import json

CONNECTIONS, CHECKS = 1024, 100


def attack(attacker):
    check = {"domain": "rude", "attributes": {"endpoint": "/wide", "user": ""}}
    body = json.dumps({"checks": [check] * CHECKS}).encode()
    request = (b"POST /v1/checks HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer "
               + attacker.token.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    connections = []
    while True:
        connections += attacker.many(CONNECTIONS, lambda: attacker.connect(
            attacker.http, request, receive_buffer=2048, patience=1))
        if attacker.over(0.5):
            return
