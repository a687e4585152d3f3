#!/usr/bin/python3
"""Measures what `sluice top` costs a server: the time per check, and the server's CPU per check,
with and without `sluice top`, in pairs of rounds.

Usage: tests/bench/watch_cost.py [BUILD] [--pairs N] [--seconds N] [--redis] [--uniform]

BUILD: default build/release. --redis: the counters are in a separate Redis. --uniform: keys are
equally frequent, so nearly every check adds a new key to the heavy hitters.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

RULES = """\
domain: shop
rules:
  - name: per-user
    per: [user]
    limits: [{algorithm: token_bucket, rate: 10/s, burst: 20}]
"""
KEYS = 100_000


@contextlib.contextmanager
def started(*command, ready=None):
    """Runs a process, and ends it with SIGTERM."""
    process = subprocess.Popen([str(it) for it in command], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        if ready and not any(ready in line for line in process.stdout):
            sys.exit(f"{command[0]} has not started")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def microseconds_per_check(tool, server, address, options):
    """Microseconds per check: elapsed time, and CPU of the server."""
    before = cpu_seconds(server)
    answer = subprocess.run(
        [tool, "bench", "shop", "--addr", address, "--keys", str(KEYS), "--in-flight", "64",
         "--distribution", "uniform" if options.uniform else "zipf",
         "--duration", f"{options.seconds}s"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    words = answer.split()  # "checks   963135 in 10.00 s"
    return [1e6 * it / int(words[1]) for it in (float(words[3]), cpu_seconds(server) - before)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", nargs="?", default="build/release", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--redis", action="store_true")
    parser.add_argument("--uniform", action="store_true")
    options = parser.parse_args()
    tool, sluiced = options.build / "bin/sluice", options.build / "bin/sluiced"
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        (folder / "rules").mkdir()
        (folder / "rules/shop.yaml").write_text(RULES, encoding="ascii")
        flags = []
        if options.redis:
            stack.enter_context(started("redis-server", "--port", "0", "--save", "", "--unixsocket",
                                        folder / "redis", ready="ready to accept"))
            flags = ["--redis", f"unix://{folder}/redis"]
        address = f"unix:{folder}/grpc"
        server = stack.enter_context(started(
            sluiced, "--rules", folder / "rules", "--grpc", address, "--http", "127.0.0.1:0", *flags,
            ready="ready grpc="))
        microseconds_per_check(tool, server, address, options)  # warms up
        ratios = []
        for pair in range(options.pairs):
            costs = {}
            for watched in ((False, True) if pair % 2 == 0 else (True, False)):
                with contextlib.ExitStack() as watch:
                    if watched:
                        watch.enter_context(started(tool, "top", "--addr", address, ready="1 server"))
                    costs[watched] = microseconds_per_check(tool, server, address, options)
            ratios.append([watched / alone - 1 for alone, watched in zip(costs[False], costs[True])])
            print(", ".join(f"{what} {alone:.2f} us a check, watched {watched:.2f}" for what, alone, watched
                            in zip(("time", "CPU"), costs[False], costs[True])), flush=True)
    for what, each in zip(("time", "CPU of the server"), zip(*ratios)):
        low, middle, high = (100 * it for it in statistics.quantiles(each, n=4))
        print(f"{what}: median {middle:+.1f} %, half of the pairs within {low:+.1f} to {high:+.1f} %")


if __name__ == "__main__":
    main()
