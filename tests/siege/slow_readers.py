"""Over HTTP: 1,024 connections from one address. None reads its answers, which have 60 KB each."""

import json

CONNECTIONS, CHECKS = 1024, 100


def attack(attacker):
    check = {"domain": "rude", "attributes": {"endpoint": "/wide", "user": ""}}
    body = json.dumps({"checks": [check] * CHECKS}).encode()
    request = (b"POST /v1/checks HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer "
               + attacker.token.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    def connect():
        return attacker.connect(attacker.http, request * 6, receive_buffer=2048, patience=1)

    connections = attacker.many(CONNECTIONS, connect)
    while not attacker.over(0.5):
        connections += attacker.many(CONNECTIONS // 50, connect)
