"""The rows of the table: what is shown of which cases, and what it should be.

A round is a dictionary of samples by case. What a row shows is computed in each round, from what
ran within the same minute or two.
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
    cases: tuple[str, ...]  # that it needs; CPU and sources are shown of the first
    value: typing.Callable[[dict], float]
    unit: str
    compared: typing.Callable[[dict], float] | None = None
    compared_unit: str = "×"
    target: Target | None = None  # of what is compared if anything is, else of the value

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


def redis_share(title, case):
    """What a check costs Redis, in terms of one of evenly drawn users."""
    return Row(title, (case, "unary"), figure(case, "redis_cpu"), "s",
               ratio(case, "unary", "redis_cpu"), target=at_most(0.10))


def script_calls(title, case):
    return Row(title, (case,), figure(case, "script_calls"), "/s", target=Target("<", 10))


def added(one_round):
    return one_round["one caller"]["p50"] - one_round["noop, one caller"]["p50"]


ROWS = (
    throughput("no-op server", "noop", "noop"),
    throughput("no-op server, Sluice's gRPC settings and allocator", "tuned noop", "noop"),
    Row("redis-benchmark of the script, round trip", ("raw round trip",),
        figure("raw round trip", "p50"), "µs"),
    throughput("redis-benchmark of the script, -P 32", "raw"),
    throughput("unary, 100,000 users", "unary", "noop", at_least(0.82)),
    throughput("unary, each user for the first time", "new users", "noop"),
    throughput("unary, two rules: per user, whole site", "two rules", "noop", at_least(0.72)),
    throughput("unary, one hot key", "hot key", "noop", at_least(1.0)),
    redis_share("one hot key: Redis' CPU, to 100,000 users'", "hot key"),
    throughput("no-op server, by h2load", "noop, h2load", "noop"),
    throughput("unary, one hot key, by h2load", "hot key, h2load", "noop, h2load", at_least(1.0)),
    redis_share("one hot key, by h2load: Redis' CPU, to 100,000 users'", "hot key, h2load"),
    throughput("denied, one user", "denied user", "noop", at_least(1.05)),
    script_calls("denied, one user: calls of Redis", "denied user"),
    throughput("denied, 10,000 users, whole site full", "denied site", "noop", at_least(1.05)),
    script_calls("denied, 10,000 users: calls of Redis", "denied site"),
    throughput("batches of 100, to redis-benchmark", "batch", "raw", at_least(1.5)),
    throughput("stream, frames of 16, to unary", "stream", "unary", at_least(3)),
    Row("one caller, p50 over the no-op server's; less the round trip",
        ("one caller", "noop, one caller", "raw round trip"), added, "µs",
        lambda one_round: added(one_round) - one_round["raw round trip"]["p50"], "µs",
        at_most(25)),
    Row("p99 at half of the throughput, to the no-op server's", ("half", "noop, half"),
        figure("half", "p99"), "µs", ratio("half", "noop, half", "p99"), target=at_most(2)),
    Row("unary after an overload, to before", ("after overload",),
        figure("after overload", "per_second"), "/s",
        lambda one_round: (one_round["after overload"]["per_second"]
                           / one_round["after overload"]["per_second_before"])),
    Row("1,000,000 counters, keys of 36 bytes: Redis' memory, each", ("a million counters",),
        figure("a million counters", "counter_bytes"), "B", target=at_most(180)),
    Row("1,000,000 counters: resident memory of sluiced", ("a million counters",),
        figure("a million counters", "resident"), "MB"),
    Row("idle: resident memory", ("idle",), figure("idle", "resident"), "MB", target=at_most(30)),
    Row("idle: start to first answer", ("idle",), figure("idle", "start"), "ms",
        target=at_most(300)),
    Row("idle: CPU", ("idle",), figure("idle", "idle_cpu"), "ms/s", target=at_most(1)),
)

# Two builds of sluiced: what the one takes of the other.
VERSUS_ROWS = tuple(
    Row(f"{load}: {what}", (load, f"{load}, other"), figure(load, name), unit,
        ratio(load, f"{load}, other", name))
    for load in LOADS
    for what, name, unit in (("throughput", "per_second", "/s"),
                             ("CPU of sluiced a million checks", "server_cpu", "s"),
                             ("CPU of Redis a million checks", "redis_cpu", "s"))
)
