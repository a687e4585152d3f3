"""A Redis whose errors quote the refused password, and contain escape sequences for a terminal."""

from hostile_redis import serve_with

TERMINAL = b"\x1b[2J"
SERVER = {"redis": serve_with(
    lambda words: b"-ERR " + TERMINAL + b"unknown: " + b" ".join(words) + b"\r\n"
    if words[0] in (b"AUTH", b"HELLO") else None)}


def attack(attacker):
    attacker.over(None)
    log = attacker.server.log()
    faults = {"the password": attacker.token, "an escape sequence": TERMINAL.decode()}
    return [f"{what} is in the log" for what, text in faults.items() if text in log]
