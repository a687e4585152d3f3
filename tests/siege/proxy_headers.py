"""To pass as another client, a client sends the same header that its proxy adds."""

TRICKS = {  # the query, the header that client and proxy send, the proxy's other headers
    "header.": (b"?domain=rude&endpoint=/client/login&header.client_ip=X-Client-IP", b"X-Client-IP: ", b""),
    "X-Sluice-Attr": (b"", b"X-Sluice-Attr-Client-Ip: ",
                      b"X-Sluice-Domain: rude\r\nX-Sluice-Attr-Endpoint: /client/login\r\n"),
    "X-Sluice-Domain": (b"", b"X-Sluice-Domain: ",
                        b"X-Sluice-Attr-Client-Ip: x\r\nX-Sluice-Attr-Endpoint: /client/login\r\n"),
}
TRIES = 20


def attack(attacker):
    faults = {}
    while not attacker.over(0.2):
        for name, (url, header, fields) in TRICKS.items():
            own = b"rude" if name == "X-Sluice-Domain" else b"192.0.2.1"
            statuses = [attacker.ask_http(
                b"GET /v1/auth" + url + b" HTTP/1.1\r\nHost: sluice\r\nAuthorization: Bearer "
                + attacker.server.tokens["proxy"].encode() + b"\r\n" + header
                + (b"10.0.0.%d" % number) + b"\r\n" + header + own + b"\r\n" + fields + b"\r\n")
                for number in range(TRIES)]
            if statuses.count(204) > 5 or not set(statuses) <= {204, 400, 401, 403, 429}:
                faults[name] = f"{name}: {statuses.count(204)} of {TRIES} pass: {set(statuses)}"
    return faults.values()
