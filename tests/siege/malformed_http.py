"""HTTP/1.1 requests that are too large, ambiguous or malformed. Also requests that the pages of
other sites can send through an operator's browser.
"""

CHECK = b'{"domain": "rude", "attributes": {"endpoint": "/pay"}}'
FORM = b"Content-Type: text/plain\r\n"


def post(fields, host=b"Host: sluice\r\n", body=CHECK):
    return (b"POST /v1/check HTTP/1.1\r\n" + host + fields
            + b"Authorization: Bearer TOKEN\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def get(fields):
    return (b"GET /v1/auth?domain=rude&endpoint=/pay HTTP/1.1\r\nHost: sluice\r\n" + fields
            + b"Authorization: Bearer TOKEN\r\n\r\n")


REQUESTS = (  # name, bytes, and the status that the answer must have
    ("a plain one", post(b""), 200),
    ("a form of curl", post(b"Content-Type: application/x-www-form-urlencoded\r\n"), 200),
    ("no Host", post(b"", b""), 400),
    ("two Hosts", post(b"Host: other\r\n"), 400),
    ("a folded line", post(b"X: a\r\n b\r\n"), 400),
    ("a control character", post(b"X: a\x01b\r\n"), 400),
    ("a foreign Origin", post(FORM + b"Origin: http://evil.example\r\n"), 403),
    ("from another site", post(FORM + b"Sec-Fetch-Site: cross-site\r\n"), 403),
    ("an image of another site", get(b"Sec-Fetch-Site: cross-site\r\n"), 403),
    ("a long line", b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000, 431),
    ("many lines", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000, 431),
    ("a long target", b"GET /" + b"y" * 100_000, 431),
    ("a large body", b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", 413),
    ("a large chunk", b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff"
     b"\r\n" + bytes(100_000), 413),
    ("two lengths", b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6"
     b"\r\n\r\n", 400),
    ("a negative length", b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
    ("zeros", bytes(1000), 400))


def attack(attacker):
    faults = {}
    while True:
        for name, request, expected in REQUESTS:
            status = attacker.ask_http(request.replace(b"TOKEN", attacker.token.encode()))
            if status != expected:
                faults[name] = f"{name}: status {status} instead of {expected}"
        if attacker.over():
            return faults.values()
