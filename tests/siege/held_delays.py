"""Through the shipped nginx.conf: the attacker sends many requests that Sluice delays, to use up
nginx's connections to Sluice. Logins whose limit is exhausted must still not pass.
"""

import contextlib

SERVER = {"nginx": True}
HELD, TRIES = 1500, 20


def request(path):
    return b"GET " + path + b" HTTP/1.1\r\nHost: nginx\r\nConnection: close\r\n\r\n"


def attack(attacker):
    nginx = attacker.server.nginx
    first = [attacker.ask_http(request(b"/login"), nginx) for _ in range(10)]
    faults = [] if first.count(200) == 5 else [f"the first logins: {first}"]
    while True:
        held = attacker.many(HELD, lambda: attacker.connect(nginx, request(b"/export")))
        passed = [attacker.ask_http(request(b"/login"), nginx) for _ in range(TRIES)].count(200)
        if passed:
            faults += [f"{passed} of {TRIES} logins pass although their limit is exhausted"]
        if attacker.over():
            return faults
        for connection in held:
            with contextlib.suppress(OSError):
                connection.close()
