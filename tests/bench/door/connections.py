#!/usr/bin/python3
"""Measures sluiced's memory with new connections, and after some calls on each.

Usage: connections.py SLUICED [--connections N] [--calls N] [--tls]
Prints the resident megabytes without connections, with new connections, and after the calls.
"""

import argparse
import pathlib
import resource
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))

import http2  # noqa: E402
import loads  # noqa: E402
from common import PATH, folder_with_rules  # noqa: E402
from processes import Sluiced  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sluiced", type=pathlib.Path)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    limit = options.connections + 3_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, hard_limit())))
    with folder_with_rules() as (folder, rules):
        measure(options, folder, rules)


def hard_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def measure(options, folder, rules):
    flags, tls = tls_of(folder) if options.tls else ((), None)
    with Sluiced(options.sluiced, folder, rules, None, flags) as server:
        message = loads.check_request("/pay", loads.FIRST_USER)
        show("without connections", server)
        sockets = [settled(http2.connect(server.address, tls)) for _ in range(options.connections)]
        show(f"{options.connections:,} fresh connections", server)
        for reader in sockets:
            reader.sock.sendall(b"".join(
                http2.call(2 * i + 1, PATH, message) for i in range(options.calls)))
            reader.wait_for((options.calls, ends_a_call))
        show(f"after {options.calls} calls on each connection", server)


def settled(sock):
    """Exchanges SETTINGS and acks on `sock`. Returns a reader for it."""
    reader = http2.Reader(sock)
    reader.wait_for((2, lambda kind, _: kind == http2.SETTINGS))
    sock.sendall(http2.frame(http2.SETTINGS, http2.ACK, 0))
    return reader


def ends_a_call(kind, flags):
    return kind == http2.HEADERS and flags & http2.END_STREAM


def show(what, server):
    print(f"{server.resident_megabytes():8.1f} MB  {what}", flush=True)


def tls_of(folder):
    """Creates a certificate. Returns sluiced's flags and the clients' SSL context for it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True)
    return (("--tls-certificate", folder / "cert.pem", "--tls-key", folder / "key.pem"),
            http2.client_tls(folder / "cert.pem"))


if __name__ == "__main__":
    main()
