"""The measurements of a case in one round, and whether they are valid."""

import collections
import dataclasses


@dataclasses.dataclass
class Sample:
    """Figures by name:

    per_second              checks answered a second
    per_second_before       the same, before the overload
    p50, p99, p99.9         microseconds until a caller's message is answered
    server_cpu, redis_cpu, generator_cpu
                            CPU seconds for a million checks
    script_calls            calls of the script a second
    counter_bytes           bytes of Redis' memory for one counter
    resident                megabytes of sluiced's resident memory
    start                   milliseconds from starting sluiced to its first answer
    idle_cpu                milliseconds of CPU a second without callers
    """

    figures: dict[str, float]
    sources: dict[str, int] = dataclasses.field(default_factory=dict)  # number of checks by source
    faults: list[str] = dataclasses.field(default_factory=list)  # why the sample is void

    def __getitem__(self, figure):
        return self.figures[figure]

    def __str__(self):
        figures = ", ".join(f"{name} {value:,.1f}" for name, value in self.figures.items())
        return "; ".join([figures, *self.faults])


@dataclasses.dataclass(frozen=True)
class Answers:
    """The answers to checks, by kind."""

    allowed: int
    denied: int
    errors: collections.Counter  # by code
    sources: collections.Counter  # by who decided


@dataclasses.dataclass(frozen=True)
class Expected:
    decision: str  # `allowed` or `denied`
    sources: frozenset[str]

    def faults_of(self, answers):
        found = [f"{count} failed: {code}" for code, count in answers.errors.items() if count]
        found += [f"{count} decided by {source}" for source, count in answers.sources.items()
                  if count and source not in self.sources]
        decisions = {"allowed": answers.allowed, "denied": answers.denied}
        right = decisions.pop(self.decision)
        found += [f"{count} {decision}" for decision, count in decisions.items() if count]
        return found if right else [*found, f"none {self.decision}"]


# Each check is charged by Redis.
ADMITTED = Expected("allowed", frozenset({"STORE"}))
# Redis charges each check, or the server admits it with units that it has taken from Redis.
GRANTED = Expected("allowed", frozenset({"STORE", "GRANT"}))
# Each check is denied. A server with a cached denial still calls the store now and then.
DENIED = Expected("denied", frozenset({"STORE", "DENY_CACHE"}))
