"""What the cases of a report have at hand: servers, started anew for each, and loads for them."""

import collections
import contextlib
import functools
import os
import statistics
import subprocess

import loads
import raw
from cores import Cores
from loads import FIRST_USER, Load
from processes import NoopServer, Redis, Sluiced
from sample import DENIED

RULES = """
domain: bench
rules:
  # Admits everything, so that each check writes.
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000}]

  - name: orders-per-user
    match: {endpoint: /orders}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000}]
  - name: orders-whole-site
    match: {endpoint: /orders}
    limits: [{algorithm: fixed_window, limit: 1000000000000, window: 1h}]

  - name: voucher-per-user
    match: {endpoint: /vouchers}
    per: [user]
    limits: [{algorithm: fixed_window, limit: 1, window: 1d}]

  - name: tickets-per-user
    match: {endpoint: /tickets}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000}]
  - name: tickets-whole-site
    match: {endpoint: /tickets}
    limits: [{algorithm: fixed_window, limit: 1, window: 1d}]
"""

# Each check is remembered for an hour, in a counter whose key has 36 bytes.
MEMORY_RULES = """
domain: m
rules:
  - name: u
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1/h, burst: 100}]
"""

TRIES = 3  # of what is measured once for all rounds; an odd number

UNARY = Load()
ONE_CALLER = Load(in_flight=1, connections=1)

# What sluiced is asked, by name of the case.
LOADS = {
    "unary": UNARY,
    "two rules": Load("/orders"),
    "new users": Load(users=9_000_000),
    "hot key": Load(users=1),
    "denied user": Load("/vouchers", users=1, expected=DENIED),
    "denied site": Load("/tickets", users=10_000, expected=DENIED),
    "batch": Load(in_flight=16, flags=("--rpc", "batch", "--checks", "100")),
    "stream": Load(in_flight=64, flags=("--rpc", "stream", "--checks", "16")),
    "one caller": ONE_CALLER,
}


class Stage:
    """Each case has servers of its own, so that none meets what another has left behind.

    `build`    the folder of the release build
    `folder`   for what the servers write
    `seconds`  that each case is measured
    `other`    another program of sluiced, to compare with
    `say`      tells people what goes on

    `notes` say what it has found out by itself.
    """

    def __init__(self, build, folder, seconds, other, say):
        self.sluice = build / "bin/sluice"
        self.folder = folder
        self.seconds = seconds
        self.other = other
        self.say = say
        self.notes = []
        self.cores = Cores(build / "bench/core_distance")
        self._build = build
        self._rules = folder / "rules"
        self._rules.mkdir()
        (self._rules / "bench.yaml").write_text(RULES, encoding="utf-8")
        (self._rules / "memory.yaml").write_text(MEMORY_RULES, encoding="utf-8")

    def redis(self):
        return Redis(self.folder)

    @contextlib.contextmanager
    def sluiced(self, program=None):
        """On a Redis of its own."""
        with self.redis() as redis, self._sluiced_on(redis, program) as server:
            yield server

    def noop(self, queues=None):
        return NoopServer(self._build / "bench/noop_server", self.folder,
                          queues or self.noop_queues)

    def tuned_noop(self):
        return NoopServer(self._build / "bench/noop_server_tuned", self.folder, self.noop_queues,
                          tuned=True)

    @functools.cached_property
    def noop_queues(self):
        """How many completion queues serve the no-op server best."""
        rates = collections.defaultdict(list)
        for queues in sorted({1, 2, os.cpu_count()}) * TRIES:
            rates[queues].append(self._throughput(functools.partial(self.noop, queues)))
        medians = {queues: statistics.median(found) for queues, found in rates.items()}
        served = ", ".join(f"{queues} served {rate:,.0f}/s" for queues, rate in medians.items())
        self._note(f"The no-op server has as many completion queues as serve best: {served}")
        return max(medians, key=medians.get)

    @functools.cached_property
    def half_rate(self):
        """Half of the checks a second that sluiced can answer."""
        rate = statistics.median(self._throughput(self.sluiced) for _ in range(TRIES)) / 2
        self._note(f"Half of the throughput is {rate:,.0f} checks a second")
        return rate

    @functools.cached_property
    def raw_call(self):
        """What sluiced calls for one check."""
        with self.redis() as redis:
            def check():
                with self._sluiced_on(redis) as server:
                    self.check_once(server)

            return raw.hear(redis, check, FIRST_USER)

    def bench(self, server, load):
        return loads.run_sluice_bench(self.sluice, load, server, self.seconds)

    def _throughput(self, start):
        def measure():
            with start() as server:
                return self.bench(server, UNARY)["per_second"]

        return self.cores.when_near(measure)

    def overload(self, server):
        """Asks for twice what sluiced can answer."""
        load = Load(rate=4 * self.half_rate)
        subprocess.run(loads.sluice_bench(self.sluice, load, server, self.seconds),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False, timeout=30 + self.seconds)

    def h2load(self, server, load):
        return loads.run_h2load(load, server, self.seconds, self.folder)

    def check_once(self, server):
        subprocess.run(
            [self.sluice, "check", "bench", f"endpoint={UNARY.endpoint}", f"user={FIRST_USER}",
             "--addr", server.address],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=10)

    def _sluiced_on(self, redis, program=None):
        return Sluiced(program or self._build / "bin/sluiced", self.folder, self._rules, redis)

    def _note(self, text):
        self.notes.append(f"{text}.")
        self.say(text)
