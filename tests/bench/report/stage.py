"""The environment of cases: servers, newly started for each case, and their loads."""

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
from processes import NoopServer, Redis, RedisCluster, Sluiced
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

# `--versus` does not use these rules, because the other build may not support `prefetch`.
PREFETCH_RULES = """
domain: prefetch
rules:
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000, prefetch: 100ms}]
  - name: longer-per-user
    match: {endpoint: /longer}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 4000000, prefetch: 1s}]
  - name: orders-per-user
    match: {endpoint: /orders}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000, prefetch: 100ms}]
  - name: orders-whole-site
    match: {endpoint: /orders}
    limits: [{algorithm: fixed_window, limit: 1000000000000, window: 1h, prefetch: 100ms}]
"""

# Redis keeps each counter for at least an hour. A counter's key has 41 bytes.
MEMORY_RULES = """
domain: m
rules:
  - name: u
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1/h, burst: 100}]
"""

TRIES = 3  # odd; all rounds use the median of this many runs

UNARY = Load()
HOT_KEY = Load(users=1)
ONE_CALLER = Load(in_flight=1, connections=1)
ZIPF = Load(flags=("--distribution", "zipf"))
LONE_CALLS = Load(in_flight=64, connections=64)  # one call at a time on each connection
FEW_CALLS = Load(in_flight=8, connections=2)

# The loads of cases by name.
LOADS = {
    "unary": UNARY,
    "two rules": Load("/orders"),
    "new users": Load(users=9_000_000),
    "hot key": HOT_KEY,
    "denied user": Load("/vouchers", users=1, expected=DENIED),
    "denied site": Load("/tickets", users=10_000, expected=DENIED),
    "batch": Load(in_flight=16, flags=("--rpc", "batch", "--checks", "100")),
    "stream": Load(in_flight=64, flags=("--rpc", "stream", "--checks", "16")),
    "64 x 1": LONE_CALLS,
    "2 x 4": FEW_CALLS,
    "one caller": ONE_CALLER,
}


class Stage:
    """Each case has its own servers, so that no case depends on the state that another one left.

    `build`    the folder of the release build
    `folder`   for the files of the servers
    `seconds`  for which each case is measured
    `other`    another sluiced program, to compare with; None: no comparison
    `say`      prints the progress

    `notes` are sentences about what the stage measured besides the cases.
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
        if not other:
            (self._rules / "prefetch.yaml").write_text(PREFETCH_RULES, encoding="utf-8")

    def redis(self):
        return Redis(self.folder)

    @contextlib.contextmanager
    def sluiced(self, program=None, flags=()):
        """A sluiced on a separate Redis."""
        with self.redis() as redis, self._sluiced_on(redis, program, flags) as server:
            yield server

    @contextlib.contextmanager
    def sluiced_on_cluster(self, masters):
        with RedisCluster(self.folder, masters) as redis, self._sluiced_on(redis) as server:
            yield server

    def embedded(self):
        """A sluiced that counts in its own memory."""
        return self._sluiced_on(None)

    def noop(self, queues=None):
        return NoopServer(self._build / "bench/noop_server", self.folder,
                          queues or self.noop_queues)

    def noop_http2(self):
        """The no-op server on Sluice's own gRPC server, with sluiced's default of 2 threads."""
        return NoopServer(self._build / "bench/noop_http2", self.folder, 2, flag="--threads")

    @functools.cached_property
    def noop_queues(self):
        """The number of completion queues with which the no-op server is fastest."""
        rates = collections.defaultdict(list)
        for queues in sorted({1, 2, os.cpu_count()}) * TRIES:
            rates[queues].append(self._throughput(functools.partial(self.noop, queues)))
        medians = {queues: statistics.median(found) for queues, found in rates.items()}
        served = ", ".join(f"{rate:,.0f}/s with {queues}" for queues, rate in medians.items())
        self._note("The no-op server uses the number of completion queues that gave the highest "
                   f"throughput: {served}")
        return max(medians, key=medians.get)

    @functools.cached_property
    def half_rate(self):
        """Half of the calls a second that the no-op server can answer."""
        rate = statistics.median(self._throughput(self.noop) for _ in range(TRIES)) / 2
        self._note(f"Half of the no-op server's throughput is {rate:,.0f} calls a second")
        return rate

    @functools.cached_property
    def raw_call(self):
        """The script call of sluiced for one check."""
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

    def overload(self, server, rate):
        """Sends `rate` checks a second, and ignores the result."""
        subprocess.run(loads.sluice_bench(self.sluice, Load(rate=rate), server, self.seconds),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False, timeout=30 + self.seconds)

    def h2load(self, server, load):
        return loads.run_h2load(load, server, self.seconds, self.folder)

    def check_once(self, server):
        subprocess.run(
            [self.sluice, "check", "bench", f"endpoint={UNARY.endpoint}", f"user={FIRST_USER}",
             "--addr", server.address],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=10)

    def _sluiced_on(self, redis, program=None, flags=()):
        return Sluiced(program or self._build / "bin/sluiced", self.folder, self._rules, redis,
                       flags)

    def _note(self, text):
        self.notes.append(f"{text}.")
        self.say(text)
