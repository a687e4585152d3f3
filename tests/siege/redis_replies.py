"""A Redis that announces 134,217,727 elements in the reply to each check, but sends only 10,000."""

from hostile_redis import serve_with

REPLY = b"*134217727\r\n" + b":1\r\n" * 10_000
SERVER = {"redis": serve_with(lambda words: REPLY if words[0] == b"EVALSHA" else None)}


def attack(attacker):
    attacker.over(None)
    if not attacker.server.metric('sluice_redis_errors_total{kind="protocol"}'):
        return ["the server does not treat the huge list as an error"]
