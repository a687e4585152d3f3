#!/usr/bin/env python3
"""Compares laws that adapt a concurrency limit, on simulated services in simulated time.

    tests/bench/adaptive_laws.py [--seed 1] [--only NAME]

The law of `adapt` (docs/adaptive.md) is StepLaw; src/core/algorithm/adaptive_limit.h is the same in
C++. The other laws are AIMD with one limit for the fleet, and two gradient laws as published. Each
caller runs its own gradient law. All laws are compared to the best fixed limit.

The program tries fixed limits. The best one is the largest that keeps the share: at least 90 % of
requests end within the latency. The rate is compared to the highest rate of all fixed limits that
keep the share. A law has settled as soon as the mean limit of five seconds stays within 15 % of the
best. Swing is the difference between the highest and the lowest limit from second 20 to second 80,
in percent of the mean limit.
"""
import argparse
import collections
import heapq
import math
import random

SHARE = 90  # percent
LEAST, MOST = 4, 500
OK, OVERLOAD = "OK", "OVERLOAD"


class QueueService:
    """M/M/c: servers with one queue; times are exponential. `speed` changes the capacity."""

    latency = 0.3

    def __init__(self, rng, servers=40, mean=0.1):
        self.rng, self.servers, self.mean = rng, servers, mean
        self.running, self.queue = [], collections.deque()
        self.speed = 1.0

    def capacity(self):
        return self.servers / self.mean

    def set_speed(self, speed, _):
        self.speed = speed

    def start(self, now, request):
        self.queue.append(request)
        self._fill(now)

    def _fill(self, now):
        while self.queue and len(self.running) < round(self.servers * self.speed):
            request = self.queue.popleft()
            ends = now + self.rng.expovariate(1 / self.mean)
            heapq.heappush(self.running, (ends, id(request), request))

    def next_end(self):
        return self.running[0][0] if self.running else math.inf

    def finish(self, now):
        request = heapq.heappop(self.running)[2]
        self._fill(now)
        return request


class KneeService:
    """Requests share a processor. Up to the knee, each runs at full speed. Beyond it, if there are
    twice as many requests, each is more than twice as slow, so the throughput falls."""

    latency = 0.24

    def __init__(self, rng, knee=40, mean=0.15, steepness=1.4):
        self.rng, self.knee, self.mean, self.steepness = rng, knee, mean, steepness
        self.running = []
        self.speed, self.work, self.at = 1.0, 0.0, 0.0

    def capacity(self):
        return self.knee / self.mean

    def rate(self):
        knee = self.knee * self.speed
        return min(1.0, (knee / max(len(self.running), 1)) ** self.steepness)

    def set_speed(self, speed, now):
        self._advance(now)
        self.speed = speed

    def _advance(self, now):
        self.work += (now - self.at) * self.rate()
        self.at = now

    def start(self, now, request):
        self._advance(now)
        needs = self.rng.lognormvariate(math.log(self.mean) - 0.045, 0.3)
        heapq.heappush(self.running, (self.work + needs, id(request), request))

    def next_end(self):
        if not self.running:
            return math.inf
        return self.at + max(0.0, self.running[0][0] - self.work) / self.rate()

    def finish(self, now):
        self._advance(now)
        return heapq.heappop(self.running)[2]


class FixedLaw:
    shared = True
    latency = 0.0

    def __init__(self, limit):
        self.limit = limit

    def sample(self, now, started, outcome, held):
        pass


class StepLaw:
    """Sluice's law. src/core/algorithm/adaptive_limit.h explains it. The limits `now` and `top` are
    in millionths of a slot."""

    shared = True
    UNIT = 1_000_000
    STEP, BRIEF, SEARCH = 20_000, 20, 5

    def __init__(self):
        self.now = self.top = self.UNIT * LEAST
        self.searching = True

    @property
    def limit(self):
        return self.now // self.UNIT

    def sample(self, now, started, outcome, held):
        latency, took = int(1e6 * self.latency), max(0, int(1e6 * (now - started)))
        step = self.STEP * min(latency, self.BRIEF * took) // latency
        step *= self.SEARCH if self.searching else 1
        busy = 5 * held >= 4 * self.limit
        if outcome == OVERLOAD or took > latency:
            self.now = max(self.UNIT * LEAST, self.now - step * SHARE // (100 - SHARE))
            if self.searching:
                self.searching = self.now >= self.top * 85 // 100 - 3 * self.UNIT
            if busy and not self.searching:
                self.top = self.now
            return
        most = self.UNIT * MOST if busy else self.top
        self.now = max(self.now, min(most, self.now + step))
        self.top = max(self.top, self.now)


class AimdLaw:
    """A round has as many requests as the limit. If a round misses the share, the limit falls by a
    tenth, but not twice within the time `latency`. Otherwise, if callers have held four fifths of
    the limit, it rises by one slot."""

    shared = True

    def __init__(self):
        self.value = float(LEAST)
        self.moved, self.slow, self.seen, self.busy = 0.0, 0, 0, False

    @property
    def limit(self):
        return int(self.value)

    def sample(self, now, started, outcome, held):
        self.seen += 1
        self.slow += outcome == OVERLOAD or now - started > self.latency
        self.busy |= 5 * held >= 4 * self.limit
        if self.seen >= 10 and 100 * self.slow > (100 - SHARE) * max(self.seen, self.limit):
            if now - self.moved >= self.latency:
                self.value, self.moved = max(LEAST, self.value * 0.9), now
            self.seen = self.slow = 0
        elif self.seen >= self.limit:
            if self.busy:
                self.value = min(MOST, self.value + 1)
            self.seen, self.slow, self.busy = 0, 0, False


class Gradient2Law:
    """Gradient2Limit of Netflix' concurrency-limits, with its defaults and one-second windows."""

    shared = False

    def __init__(self):
        self.value, self.long, self.count = 20.0, 0.0, 0
        self.ends, self.total, self.seen, self.held = 1.0, 0.0, 0, 0

    @property
    def limit(self):
        return int(self.value)

    def _add(self, sample):
        if self.count < 10:
            self.count += 1
            self.long += (sample - self.long) / self.count
        else:
            self.long += (sample - self.long) * 2 / 601

    def sample(self, now, started, outcome, held):
        self.total += now - started
        self.seen += 1
        self.held = max(self.held, held)
        if now < self.ends or self.seen < 10:
            return
        short, held = self.total / self.seen, self.held
        self.ends, self.total, self.seen, self.held = now + 1, 0.0, 0, 0
        self._add(short)
        if self.long / short > 2:
            self.long *= 0.95
        if held < self.value / 2:
            return
        gradient = max(0.5, min(1.0, 1.5 * self.long / short))
        moved = self.value * gradient + 4
        self.value = max(20 if MOST > 200 else 1, min(200, 0.8 * self.value + 0.2 * moved))


class EnvoyLaw:
    """The gradient controller of Envoy's adaptive_concurrency filter, with the values of the
    example in Envoy's documentation."""

    shared = False

    def __init__(self):
        self.value, self.least = 3, 0.0
        self.probing, self.times, self.ends, self.next_probe = True, [], 0.1, 60.0
        self.before = 3

    @property
    def limit(self):
        return 3 if self.probing else self.value

    def sample(self, now, started, outcome, held):
        self.times.append(now - started)
        if self.probing:
            if len(self.times) >= 50:
                self.least = sorted(self.times)[25]
                self.value, self.probing, self.times, self.ends = self.before, False, [], now + 0.1
            return
        if now >= self.next_probe:
            self.before, self.probing, self.times = self.value, True, []
            self.next_probe = now + 60
            return
        if now < self.ends or not self.times:
            return
        measured = sorted(self.times)[len(self.times) // 2]
        gradient = max(0.5, min(2.0, 1.25 * self.least / measured))
        moved = self.value * gradient
        self.value = int(max(3, min(1000, moved + math.sqrt(moved))))
        self.times, self.ends = [], now + 0.1


class Run:
    """One law on one service: what it admits, and the limit over time."""

    def __init__(self, service, make_law, callers, load, rng, liar=None):
        self.service, self.callers, self.load, self.rng = service, callers, load, rng
        self.base = service.capacity()
        first = make_law()
        self.laws = [first] * callers if first.shared else [make_law() for _ in range(callers)]
        for law in self.laws:
            law.latency = service.latency
        self.held = collections.Counter()
        self.liar, self.done, self.limits, self.finished = liar, [], [], 0
        self.now, self.next_arrival, self.next_note = 0.0, 0.0, 0.0

    def slots(self, caller):
        return 0 if self.laws[caller].shared else caller

    def limit(self):
        laws = self.laws[:1] if self.laws[0].shared else self.laws
        return sum(law.limit for law in laws)

    def _arrive(self):
        self.next_arrival = self.now + self.rng.expovariate(self.base * self.load)
        caller = self.rng.randrange(self.callers)
        slots = self.slots(caller)
        if self.held[slots] < self.laws[caller].limit:
            self.held[slots] += 1
            if self.liar and caller == 0:  # releases at once, and reports a false outcome
                self._release(caller, self.now - 0.001, self.liar)
            else:
                self.service.start(self.now, (self.now, caller))

    def _release(self, caller, started, outcome):
        slots = self.slots(caller)
        self.laws[caller].sample(self.now, started, outcome, self.held[slots])
        self.held[slots] -= 1

    def until(self, end):
        while True:
            finishes = self.service.next_end()
            upcoming = min(self.next_arrival, finishes, self.next_note)
            if upcoming >= end:
                self.now = end
                return
            self.now = upcoming
            if upcoming == self.next_note:
                self.limits.append((self.now, self.limit()))
                self.next_note += 0.1
            elif upcoming == finishes:
                started, caller = self.service.finish(self.now)
                self.done.append((self.now, self.now - started))
                self._release(caller, started, OK)
            else:
                self._arrive()

    def measure(self, since, until):
        took = sorted(t for at, t in self.done if since <= at < until)
        limits = [limit for at, limit in self.limits if since <= at < until]
        slow = sum(t > self.service.latency for t in took)
        return {
            "limit": sum(limits) / len(limits),
            "low": min(limits),
            "high": max(limits),
            "rate": len(took) / (until - since),
            "slow": 100 * slow / max(len(took), 1),
            "p99": took[int(0.99 * len(took))] if took else 0.0,
        }


SERVICES = {"queue": QueueService, "knee": KneeService}
LAWS = {"steps": StepLaw, "AIMD": AimdLaw, "Gradient2": Gradient2Law, "Envoy": EnvoyLaw}


def best_fixed(name, load, speed, seed):
    """The largest limit that keeps the share, and the highest rate of all limits that keep it."""
    best, most, limit = LEAST, 0.0, LEAST
    while limit <= min(200, 1.3 * best + 8):
        rng = random.Random(seed)
        run = Run(SERVICES[name](rng), lambda limit=limit: FixedLaw(limit), 1, load, rng)
        run.service.set_speed(speed, 0)
        run.until(45)
        seen = run.measure(5, 45)
        if seen["slow"] <= 100 - SHARE:
            best, most = limit, max(most, seen["rate"])
        limit += max(1, limit // 20)
    return best, most


def settle_time(run, since, best):
    """The time after which the mean limit over any five seconds is within 15 % of the best."""
    limits = [limit for at, limit in run.limits if at >= since]
    settled = 0.0
    for i in range(len(limits) - 50):
        if abs(sum(limits[i : i + 50]) / 50 - best) > 0.15 * best:
            settled = (i + 1) / 10
    return settled


def measure(name, make, callers, bests, seed):
    """The cells of a row."""
    rates = []
    for load in (0.5, 1, 3):
        rng = random.Random(seed)
        run = Run(SERVICES[name](rng), make, callers, load, rng)
        run.until(80)
        seen = run.measure(20, 80)
        rates.append(f"{100 * seen['rate'] / bests[load, 1][1]:.0f}")
    best = bests[3, 1][0]
    swing = 100 * (seen["high"] - seen["low"]) / seen["limit"]
    cells = [f"{seen['limit']:.0f} of {best}", f"{settle_time(run, 0, best):.0f} s", f"{swing:.0f} %",
             " ".join(rates), f"{seen['slow']:.0f} %", f"{seen['p99'] / run.service.latency:.1f}"]
    for speed in (0.5, 1):  # halved, then doubled
        since = run.now
        run.service.set_speed(speed, since)
        run.until(since + 60)
        cells.append(f"{settle_time(run, since, bests[3, speed][0]):.0f} s")
    return cells


def idle_and_liars(name, make, bests, seed):
    rng = random.Random(seed)
    run = Run(SERVICES[name](rng), make, 5, 3, rng)
    run.until(60)
    before, run.load = run.limit(), 0.02
    run.until(3660)
    cells = [f"{before} to {run.limit()}"]
    for callers, says in ((5, OK), (50, OK), (5, OVERLOAD), (50, OVERLOAD)):
        rng = random.Random(seed)
        run = Run(SERVICES[name](rng), make, callers, 3, rng, says)
        run.until(60)
        limit = run.measure(20, 60)["limit"]
        cells.append(f"{100 * (limit / bests[3, 1][0] - 1):+.0f} %")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    laws = {name: law for name, law in LAWS.items() if options.only in name}
    for name in SERVICES:
        bests = {it: best_fixed(name, *it, options.seed)
                 for it in ((0.5, 1), (1, 1), (3, 1), (3, 0.5))}
        print(f"\n| {name} | callers | limit | settled | swing "
              "| rate in % of the best, at 0.5, 1 and 3 times the capacity | slow | p99 / latency "
              "| settled after the capacity is halved | settled after it is doubled again |\n" +
              "| --- " * 10 + "|")
        for law, make in laws.items():
            for callers in (5, 50):
                cells = measure(name, make, callers, bests, options.seed)
                print("|", " | ".join([law, str(callers), *cells]), "|", flush=True)
        print(f"\n| {name} | idle for an hour | 1 of 5 callers reports OK at once | 1 of 50 "
              "| 1 of 5 reports OVERLOAD at once | 1 of 50 |\n" + "| --- " * 6 + "|")
        for law, make in laws.items():
            print("|", " | ".join([law, *idle_and_liars(name, make, bests, options.seed)]), "|")


if __name__ == "__main__":
    main()
