"""The rows of the table: the figures of cases, and their targets.

A round is a dictionary of samples by case. A row's figures are computed for each round, from the
samples of this round.
"""

import dataclasses
import typing

from stage import LOADS


@dataclasses.dataclass(frozen=True)
class Target:
    relation: str  # "≥", "≤" or "<"
    bound: float

    def is_met(self, value):
        return {"≥": value >= self.bound, "≤": value <= self.bound,
                "<": value < self.bound}[self.relation]


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    cases: tuple[str, ...]  # needed cases; the row shows the CPU and the sources of the first
    value: typing.Callable[[dict], float]
    unit: str
    compared: typing.Callable[[dict], float] | None = None
    compared_unit: str = "×"
    target: Target | None = None  # for `compared` if it is set, else for `value`

    def judged(self, one_round):
        return (self.compared or self.value)(one_round)


def at_least(bound):
    return Target("≥", bound)


def at_most(bound):
    return Target("≤", bound)


def figure(case, name):
    return lambda one_round: one_round[case][name]


def ratio(case, base, name="per_second"):
    return lambda one_round: one_round[case][name] / one_round[base][name]


def throughput(title, case, base=None, target=None):
    return Row(title, (case, base) if base else (case,), figure(case, "per_second"), "/s",
               ratio(case, base) if base else None, target=target)


def redis_share(title, case, bound):
    """The cost of a check in all Redis processes, relative to the cost of "unary" on one Redis."""
    return Row(title, (case, "unary"), figure(case, "redis_cpu"), "s",
               ratio(case, "unary", "redis_cpu"), target=at_most(bound))


def script_calls(title, case, bound=10):
    return Row(title, (case,), figure(case, "script_calls"), "/s", target=Target("<", bound))


def added(one_round, case="one caller"):
    return one_round[case]["p50"] - one_round["noop http2, one caller"]["p50"]


ROWS = (
    throughput("no-op server (gRPC)", "noop", "noop"),
    throughput("no-op server on Sluice's gRPC server", "noop http2", "noop"),
    Row("redis-benchmark of the script, round trip", ("raw round trip",),
        figure("raw round trip", "p50"), "µs"),
    throughput("redis-benchmark of the script, -P 32", "raw"),
    throughput("unary, 100,000 users", "unary", "noop", at_least(1.8)),
    Row("unary, 100,000 users: CPU of sluiced (compared with the no-op server)", ("unary", "noop"),
        figure("unary", "server_cpu"), "s", ratio("unary", "noop", "server_cpu"),
        target=at_most(0.33)),
    throughput("unary, each user for the first time", "new users", "noop"),
    throughput("unary, two rules: per user, whole site", "two rules", "noop", at_least(1.3)),
    throughput("unary, one hot key", "hot key", "noop", at_least(5)),
    redis_share("one hot key: Redis' CPU (compared with 100,000 users)", "hot key", 0.12),
    throughput("no-op server (gRPC), by h2load", "noop, h2load", "noop"),
    throughput("unary, one hot key, by h2load", "hot key, h2load", "noop, h2load", at_least(5)),
    throughput("denied, one user", "denied user", "noop", at_least(6)),
    script_calls("denied, one user: calls to Redis", "denied user"),
    throughput("denied, 10,000 users, whole site full", "denied site", "noop", at_least(6)),
    script_calls("denied, 10,000 users: calls to Redis", "denied site"),
    throughput("unary, 64 connections with one call each", "64 x 1", "noop, 64 x 1",
               at_least(1.2)),
    throughput("unary, 2 connections with four calls each", "2 x 4", "noop, 2 x 4",
               at_least(0.85)),
    throughput("embedded store, 100,000 users", "embedded", "noop", at_least(4)),
    throughput("prefetch, one hot key (compared with the embedded store)",
               "hot key, prefetch", "embedded, hot key", at_least(0.9)),
    script_calls("prefetch, one hot key: calls to Redis", "hot key, prefetch", 60),
    throughput("prefetch, two rules (compared with one hot key in the embedded store)",
               "two rules, hot key, prefetch", "embedded, hot key"),
    throughput("prefetch, 100,000 users by zipf 0.99 (compared with no prefetch)",
               "zipf, prefetch", "zipf", at_least(1)),
    Row("prefetch, 100,000 users by zipf 0.99: Redis' CPU (compared with no prefetch)",
        ("zipf, prefetch", "zipf"), figure("zipf, prefetch", "redis_cpu"), "s",
        ratio("zipf, prefetch", "zipf", "redis_cpu")),
    throughput("prefetch for 1 s, 100,000 users by zipf 0.99 (compared with no prefetch)",
               "zipf, prefetch 1 s", "zipf", at_least(1)),
    Row("prefetch for 1 s, 100,000 users by zipf 0.99: Redis' CPU (compared with no prefetch)",
        ("zipf, prefetch 1 s", "zipf"), figure("zipf, prefetch 1 s", "redis_cpu"), "s",
        ratio("zipf, prefetch 1 s", "zipf", "redis_cpu"), target=at_most(0.75)),
    throughput("prefetch, 100,000 users (compared with no prefetch)", "unary, prefetch", "unary",
               at_least(0.97)),
    redis_share("prefetch, 100,000 users: Redis' CPU (compared with no prefetch)",
                "unary, prefetch", 1.03),
    Row("prefetch, one caller: p50 minus the p50 of a no-op call to Sluice's gRPC server",
        ("one caller, prefetch", "noop http2, one caller"),
        lambda it: added(it, "one caller, prefetch"), "µs", target=at_most(8)),
    Row("prefetch, one caller: p99.9 (compared with no prefetch)",
        ("one caller, prefetch", "one caller"), figure("one caller, prefetch", "p99.9"), "µs",
        ratio("one caller, prefetch", "one caller", "p99.9"), target=at_most(1)),
    Row("prefetch, 64 threads with one call each on one key: Redis' CPU "
        "(compared with no prefetch)",
        ("64 threads, one call each, prefetch", "64 threads, one call each"),
        figure("64 threads, one call each, prefetch", "redis_cpu"), "s",
        ratio("64 threads, one call each, prefetch", "64 threads, one call each", "redis_cpu"),
        target=at_most(0.1)),
    throughput("cluster of 3: 100,000 users (compared with one Redis)", "cluster", "unary",
               at_least(0.8)),
    redis_share("cluster of 3: CPU of all nodes (compared with one Redis)", "cluster", 1.4),
    throughput("8 threads: 100,000 users (compared with 2 threads)", "8 threads", "unary",
               at_least(0.8)),
    redis_share("8 threads, one hot key: Redis' CPU (compared with 100,000 users and 2 threads)",
                "8 threads, hot key", 0.3),
    throughput("batches of 100", "batch", "noop", at_least(2.3)),
    throughput("stream, frames of 16", "stream", "noop", at_least(2.4)),
    Row("one caller: p50 minus the p50 of a no-op call to Sluice's gRPC server "
        '(in the column "compared": this minus the round trip to Redis)',
        ("one caller", "noop http2, one caller", "raw round trip"), added, "µs",
        lambda one_round: added(one_round) - one_round["raw round trip"]["p50"], "µs",
        at_most(15)),
    Row("one caller: p50 (compared with gRPC's no-op server)", ("one caller", "noop, one caller"),
        figure("one caller", "p50"), "µs", ratio("one caller", "noop, one caller", "p50")),
    Row("p99 at half of the no-op server's throughput (compared with the no-op server)",
        ("half", "noop, half"), figure("half", "p99"), "µs", ratio("half", "noop, half", "p99"),
        target=at_most(1)),
    Row("unary after an overload (compared with before)", ("after overload",),
        figure("after overload", "per_second"), "/s",
        lambda one_round: (one_round["after overload"]["per_second"]
                           / one_round["after overload"]["per_second_before"])),
    Row("1,000,000 counters, keys of 41 bytes: Redis' memory per counter", ("a million counters",),
        figure("a million counters", "counter_bytes"), "B", target=at_most(180)),
    Row("1,000,000 counters: resident memory of sluiced", ("a million counters",),
        figure("a million counters", "resident"), "MB"),
    Row("idle: resident memory", ("idle",), figure("idle", "resident"), "MB", target=at_most(25)),
    Row("idle: start to first answer", ("idle",), figure("idle", "start"), "ms",
        target=at_most(100)),
    Row("idle: CPU", ("idle",), figure("idle", "idle_cpu"), "ms/s", target=at_most(1)),
)

# The rows of --versus: the figures of the build, also relative to the other sluiced.
VERSUS_ROWS = tuple(
    Row(f"{load}: {what}", (load, f"{load}, other"), figure(load, name), unit,
        ratio(load, f"{load}, other", name))
    for load in LOADS
    for what, name, unit in (("throughput", "per_second", "/s"),
                             ("CPU of sluiced for a million checks", "server_cpu", "s"),
                             ("CPU of Redis for a million checks", "redis_cpu", "s"))
)
