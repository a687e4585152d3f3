"""Certificates whose name has one type, such as URI, but looks like a name of another type."""

import json

NAMES = {  # the alternative name in the certificate, and the identity that it must not pass as
    "URI:10.0.0.1": "ip:10.0.0.1", "URI:ip:10.0.0.1": "ip:10.0.0.1",
    "DNS:ip:10.0.0.1": "ip:10.0.0.1", "email:uri:spiffe@example": "uri:spiffe@example",
    "URI:checkout.example": "dns:checkout.example",
}
SERVER = {"tls": True, "client_ca": True, "callers": "".join(
    f"  caller{number}: {{identities: ['{identity}'], domains: [rude]}}\n"
    for number, identity in enumerate(sorted(set(NAMES.values()))))}


def attack(attacker):
    server = attacker.server
    body = json.dumps({"domain": "rude", "attributes": {"endpoint": "/pay"}}).encode()
    request = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    faults = []
    for number, (name, identity) in enumerate(NAMES.items()):
        server.authority.issue(f"attacker{number}", name)
        context = server.context(f"attacker{number}")
        status = attacker.ask_http(request, wrap=lambda connection, context=context:
                                   context.wrap_socket(connection, server_hostname="localhost"))
        if status != 401:
            faults.append(f"{name} passes as {identity}: {status}")
    attacker.over(None)
    return faults
