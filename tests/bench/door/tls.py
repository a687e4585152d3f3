#!/usr/bin/python3
"""Measures the cost of TLS for unary calls on open connections.

Usage: tls.py BIN [--users N] [--seconds S] [--rounds N]
BIN is the folder with sluiced and sluice. In each round, a load generator calls CheckLimit on a
server with TLS, then on a server without TLS. The generator has 64 connections with one call at a
time. All users are equally frequent; the Redis is real. Shows medians: calls a second, and for each
call the CPU time of the server and that of the generator. The generator encrypts, too, and shares
the machine with the server. So on few cores, the throughput shows the cost of both.
"""

import pathlib
import resource
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))

from common import folder_with_rules, load_options, unary_calls  # noqa: E402
from connections import tls_of  # noqa: E402
from processes import Redis, Sluiced  # noqa: E402


def main():
    options = load_options(__doc__)
    with folder_with_rules() as (folder, rules):
        flags, _ = tls_of(folder)
        trust = ["--tls-ca", folder / "cert.pem", "--tls-server-name", "localhost"]
        program = options.bin / "sluiced"
        with (Redis(folder) as redis,
              Sluiced(program, folder, rules, redis, flags) as secure,
              Sluiced(program, folder, rules, redis) as plain):
            rounds = [{"TLS": ask(secure, trust, options), "no TLS": ask(plain, [], options)}
                      for _ in range(options.rounds)]
    show(rounds)


def show(rounds):
    for name in rounds[0]:
        rate, server, generator = (statistics.median(it[name][i] for it in rounds)
                                   for i in range(3))
        print(f"{name:8} {rate:10,.0f}/s  server {server:5.2f} us  generator {generator:5.2f} us")
    cost = statistics.median(1 - it["TLS"][0] / it["no TLS"][0] for it in rounds)
    print(f"with TLS: {cost:.1%} fewer calls a second")


def ask(server, trust, options):
    """The calls a second, and the CPU µs of the server and of the generator for each call."""
    before, mine = server.cpu_seconds(), generator_seconds()
    rate = unary_calls(server.address, options, *trust)
    calls = rate * options.seconds / 1e6
    return rate, (server.cpu_seconds() - before) / calls, (generator_seconds() - mine) / calls


def generator_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
