#!/usr/bin/python3
"""Chaos tests: three sluiced on a real Redis, callers over gRPC at a bounded rate, and faults during
the load. Prints one table. If a promise is broken, the exit status is 1.

Each file of faults/ is a fault. Each fault has its own round of load. rounds.py judges the round.
"""

import argparse
import importlib
import pathlib
import sys
import tempfile
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "faults"), str(HERE), str(HERE.parent / "system")]

import running  # noqa: E402
import servers  # noqa: E402
from cluster import Cluster  # noqa: E402
from load import SHARES  # noqa: E402
from rounds import Fault, Round, Row  # noqa: E402
from sentinels import Sentinels  # noqa: E402
from single import Single  # noqa: E402

STANDS = {"single": Single, "sentinels": Sentinels, "cluster": Cluster}
FAULTS = sorted(path.stem for path in (HERE / "faults").glob("*.py"))
SOAK_ROUND = 4  # seconds of load; starting and judging a round takes another second
COLUMNS = ("fault", "sent", "answered", "late", "STORE", "DENY_CACHE", "FALLBACK", "refused",
           "strict", "counted", "unknown", "local", "of limit", "loop late", "recovery")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=3,
                        help="seconds of load for each fault (default 3)")
    parser.add_argument("--soak", type=float, default=0,
                        help="run a soak test of this many seconds: the faults repeat, one "
                             "every 5 s, on the same servers; --seconds has no effect")
    parser.add_argument("--fault", choices=FAULTS, action="append", help="run only this fault")
    parser.add_argument("--rate", type=float, default=2400, help="checks a second (default 2400)")
    parser.add_argument("--redis-timeout", type=int, default=10, metavar="MS",
                        help="redis.timeout of the servers (default 10); use more if the "
                             "machine is shared")
    parser.add_argument("--growth", type=float, default=16, metavar="MB",
                        help="how much a server's memory may grow in a soak test after the first "
                             "pass through the faults (default 16); use more with a sanitizer: its "
                             "allocator keeps freed memory")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release")
    return parser.parse_args()


def load_faults(names):
    faults = [Fault(importlib.import_module(name)) for name in names or FAULTS]
    # All faults of a stand run before the faults of the next stand.
    return sorted(faults, key=lambda fault: list(STANDS).index(fault.stand))


class Chaos:
    def __init__(self, chosen, seconds):
        self.chosen, self.seconds = chosen, seconds
        self.stands = {}
        self.rounds = 0
        self.rows = {}
        # A limit is half of the units that the average user requests, but at least 5 and at most
        # 10,000, the largest limit of a sliding_log.
        users = {"strict": servers.STRICT, "local": servers.LOCAL}
        self.limits = {endpoint: max(5, min(10_000, int(
            chosen.rate * SHARES[endpoint] * seconds / users[endpoint] / 2))) for endpoint in users}

    def stand(self, name):
        if name not in self.stands:
            rules = servers.rules(self.limits["strict"], self.limits["local"])
            self.stands[name] = STANDS[name](self.chosen.build.resolve(),
                                        self.chosen.redis_timeout, rules)
        return self.stands[name]

    def run(self, fault):
        self.rounds += 1
        one = Round(self.stand(fault.stand), fault, f"r{self.rounds}", self.limits)
        try:
            one.run(self.chosen.rate, self.seconds)
        except Exception as error:  # the other faults still run
            traceback.print_exc()
            one.row.demand(False, f"the round ends without an exception, but: {error!r}")
            del self.stands[fault.stand]
        self.rows.setdefault(fault.name, Row(fault.name)).add(one.row)
        print(line(one.row), file=sys.stderr, flush=True)

    def run_each(self, faults):
        for fault in faults:
            self.run(fault)
        return []

    def soak(self, faults):
        """Runs until the time is over and every fault has run at least once."""
        end = time.monotonic() + self.chosen.soak
        sizes = {}  # of the servers, after each pass through the faults
        while not sizes or time.monotonic() < end:
            for fault in faults:
                if sizes and time.monotonic() >= end:
                    break
                self.run(fault)
            else:  # all faults have happened since the last sizes
                self.note_sizes(sizes)
        growth = max(seen[-1] - seen[0] for seen in sizes.values())
        largest = max(size for seen in sizes.values() for size in seen)
        print(f"memory of a sluiced: grew by at most {growth:.1f} MB, to at most {largest:.1f} MB")
        return [f"memory grew by {growth:.1f} MB"] if growth > self.chosen.growth else []

    def note_sizes(self, sizes):
        for stand in self.stands.values():
            for server in stand.servers:
                size = running.resident_megabytes(server.process)
                print(f"{server.grpc}: {size:.1f} MB", file=sys.stderr)
                sizes.setdefault(server.process, []).append(size)


def line(row):
    count = row.count
    cells = [row.name, count["sent"], count["answered"], count["late"], count["STORE"],
             count["DENY_CACHE"], count["FALLBACK"], count["refused"], count["strict"],
             count["counted"], count["unknown"], count["local"], count["local limit"],
             f"{1000 * row.lateness:.0f} ms", f"{row.recovery:.2f} s"]
    return "| " + " | ".join(map(str, cells)) + " |"


def table(rows):
    total = Row("all")
    for row in rows:
        total.add(row)
    return "\n".join(["| " + " | ".join(COLUMNS) + " |",
                      "| --- |" + " ---: |" * (len(COLUMNS) - 1),
                      *map(line, [*rows, total])])


def main():
    chosen = options()
    if pathlib.Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"  # so that Redis does not wait for a disk
    chaos = Chaos(chosen, SOAK_ROUND if chosen.soak else chosen.seconds)
    faults = load_faults(chosen.fault)
    broken = []
    try:
        broken += chaos.soak(faults) if chosen.soak else chaos.run_each(faults)
    finally:
        unittest.doModuleCleanups()
        rows = list(chaos.rows.values())
        print(table(rows), flush=True)
    broken += [promise for row in rows for promise in row.broken]
    print("\n".join(f"BROKEN {promise}" for promise in broken) or "all promises were kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
