"""One round: load, a fault during the load, and a check of the promises of docs/outages.md."""

import collections
import contextlib
import re
import time

import running
from load import Load
from servers import LOCAL, PATIENCE, STRICT

MARGIN = 0.005  # seconds that a check may take in addition to redis.timeout
CALM = 0.7  # seconds of load before a fault
EVERY = 5  # seconds from the start of a fault to the next, in a long round


class Fault:
    """A module of faults/. It has a docstring, the context manager strike(stand), and any of these
    settings."""

    DEFAULTS = dict(
        STAND="single", LASTS=0.8,
        FORGETS=False,  # Redis loses all counts
        MAY_LOSE=0,  # units that may be lost if a master dies before it has replicated them
        KILLS_SERVERS=False,
        prepare=lambda stand: contextlib.nullcontext())  # a context manager for the whole round

    def __init__(self, module):
        self.name = module.__name__
        self.strike = module.strike
        for option, default in self.DEFAULTS.items():
            setattr(self, option.lower(), getattr(module, option, default))


class Row:
    """A row of the table: what one or more rounds counted, and the promises that were broken."""

    def __init__(self, name):
        self.name = name
        self.count = collections.Counter()
        self.lateness = self.recovery = 0.0
        self.broken = []  # promises

    def add(self, other):
        self.count.update(other.count)
        self.lateness = max(self.lateness, other.lateness)
        self.recovery = max(self.recovery, other.recovery)
        self.broken += other.broken

    def demand(self, kept, promise):
        if not kept:
            self.broken.append(f"{self.name}: {promise}; {dict(self.count)}")


class Round:
    def __init__(self, stand, fault, name, limits):
        self.stand, self.fault, self.name, self.limits = stand, fault, name, limits
        self.row = Row(fault.name)

    def run(self, rate, seconds):
        self.stand.mend()
        with self.fault.prepare(self.stand):
            self.before = [(server.process, server.metrics()) for server in self.stand.servers]
            load = Load(self.stand, self.name, rate, seconds)
            try:
                self.strike_until(load.end)
            finally:
                load.wait()
            self.stand.mend()
            self.stand.servers.wait_for_store()
            self.judge(load.tallies)

    def strike_until(self, end):
        while True:
            self.stand.mend()
            time.sleep(CALM)
            began = time.monotonic()
            with self.fault.strike(self.stand):
                time.sleep(self.fault.lasts)
            self.row.recovery = max(self.row.recovery, self.stand.servers.wait_for_store())
            self.row.count["faults"] += 1
            if began + EVERY + CALM + self.fault.lasts > end:
                return
            time.sleep(max(0, began + EVERY - CALM - time.monotonic()))

    def judge(self, tallies):
        self.note_answers(tallies)
        self.judge_lateness()
        self.judge_strict(tallies["strict"])
        count = self.row.count
        # In each outage, the servers together may admit up to the limit again. If Redis loses its
        # data, Redis may also admit up to the limit again.
        limits = 1 + count["faults"] * (2 if self.fault.forgets else 1)
        self.row.demand(count["local"] <= limits * count["local limit"],
                        f"/local admits at most {limits} times its limits")

    def note_answers(self, tallies):
        count = self.row.count
        count["rounds"] = 1
        count["local"] = tallies["local"].allowed
        count["local limit"] = LOCAL * self.limits["local"]
        for tally in tallies.values():
            count["sent"] += tally.sent
            count["refused"] += tally.errors["UNAVAILABLE"]
            count["answered"] += tally.allowed + tally.denied + tally.errors["UNAVAILABLE"]
            count.update(tally.sources)
            self.row.demand(tally.errors.keys() <= {"UNAVAILABLE"},
                            f"every error is UNAVAILABLE, but: {tally.messages}")
        self.row.demand(count["sent"] > 0, "checks are sent")

    # A killed server's metrics are lost.
    def increases(self):
        """For each server, the increases of its metrics in this round, or since its restart."""
        for server, (process, before) in zip(self.stand.servers, self.before, strict=True):
            base = before if process is server.process else {}
            yield {name: value - base.get(name, 0) for name, value in server.metrics().items()}

    def judge_lateness(self):
        """Demands that no check takes longer than redis.timeout + 5 ms + the lateness of its loop.
        If the loop was late by at least half of redis.timeout, redis.timeout and the lateness count
        twice in this sum."""
        timeout = self.stand.timeout / 1000
        for increase in self.increases():
            late = max((to for _, to in buckets(increase, "sluice_loop_lateness_seconds")),
                       default=0.0)
            anew = timeout + late if late >= timeout / 2 else 0.0
            bound = timeout + MARGIN + late + anew
            took = collections.Counter(
                {edges: n for edges, n in
                 buckets(increase, "sluice_check_duration_seconds").items() if edges[0] >= bound})
            self.row.count["late"] += int(took.total())
            self.row.lateness = max(self.row.lateness, late)
        self.row.demand(self.row.count["late"] == 0, "no answer is late")

    def judge_strict(self, tally):
        """Demands that Redis counts exactly the units that it admitted. Exceptions: Redis may
        also count checks whose outcome is unknown. If the fault loses data, Redis may count fewer
        units. This finds checks that are sent twice or not counted."""
        count = self.row.count
        increases = list(self.increases())
        unknown = sum(increase["sluice_redis_unknown_outcomes_total"] +
                      increase["sluice_redis_lost_undos_total"] for increase in increases)
        count["strict"] = tally.allowed
        count["unknown"] = int(unknown) + tally.lost
        self.row.demand(self.fault.kills_servers or tally.lost == 0, "no server dies by itself")
        least = 0 if self.fault.forgets else max(
            0, tally.allowed - self.fault.may_lose * count["faults"])

        def is_settled():  # late charges have been undone
            count["counted"] = self.stand.servers.auditor.counted(self.name)
            return least <= count["counted"] <= tally.allowed + count["unknown"]
        with contextlib.suppress(AssertionError):
            running.wait_until(is_settled, PATIENCE, "settled")
        self.row.demand(count["counted"] >= least, "what Redis admits is counted")
        self.row.demand(count["counted"] <= tally.allowed + count["unknown"],
                        "no check is counted twice")
        most = STRICT * self.limits["strict"] * (1 + self.fault.forgets * count["faults"])
        self.row.demand(tally.allowed <= most, f"Redis admits at most {most} units")


def buckets(metrics, name):
    """The number of observations in each bucket that is not empty, by the bucket's bounds."""
    bounds = sorted((float(bound), value) for key, value in metrics.items()
                    for bound in re.findall(rf'^{name}_bucket{{le="(.+)"}}$', key))
    found, lower, below = {}, 0.0, 0.0
    for bound, value in bounds:
        if value > below:
            found[lower, bound] = value - below
        lower, below = bound, value
    return found
