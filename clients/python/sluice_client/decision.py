"""The result of a check, and its HTTP and gRPC forms."""

from __future__ import annotations

import math
from datetime import datetime, timezone

from google.protobuf.duration_pb2 import Duration

from . import rate_limiter_pb2 as pb
from .outcome import Work


class Decision(Work):
    """The result of a check."""

    def __init__(self, allowed: bool, response: pb.CheckLimitResponse | None = None,
                 failure: str | None = None):
        self.allowed = allowed
        self.failure = failure
        """Why no server decided; None if a server answered."""
        self.response = response or pb.CheckLimitResponse()

    @property
    def answered(self) -> bool:
        """Whether a server answered. If none did, the client decided."""
        return self.failure is None

    @property
    def wait(self) -> float:
        """For how many seconds an allowed request must wait before it starts."""
        return seconds(self.response.wait)

    @property
    def retry_after(self) -> float | None:
        """Seconds until a retry can succeed; None: never, or unknown."""
        response = self.response
        return seconds(response.retry_after) if response.HasField("retry_after") else None

    @property
    def decided_at(self) -> datetime:
        """The time of the decision, by the store's clock. A refund needs it as `charged_at`."""
        return self.response.decided_at.ToDatetime(timezone.utc)

    @property
    def http_status(self) -> tuple[int, str]:
        """The HTTP status of the answer to a request that was not allowed."""
        return (429, "Too Many Requests") if self.answered else (503, "Service Unavailable")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Retry-After if a retry can succeed, and the headers of draft-ietf-httpapi-ratelimit-headers."""
        shown = [(_name(limit), limit) for limit in self.response.limits
                 if not limit.shadow and limit.HasField("limit")]
        headers = []
        if shown:
            policies = (f"{name};q={limit.limit}" for name, limit in shown)
            states = (f"{name};r={limit.remaining};t={math.ceil(seconds(limit.reset_after))}"
                      for name, limit in shown)
            headers = [("RateLimit-Policy", ", ".join(policies)), ("RateLimit", ", ".join(states))]
        if self.retry_after is not None:
            headers.append(("Retry-After", str(max(1, math.ceil(self.retry_after)))))
        return headers


class Limited(Exception):
    """The request was denied. `retry_after`: see Decision.retry_after."""

    def __init__(self, decision: Decision):
        super().__init__("rate limited" if decision.answered else
                         f"no server answered: {decision.failure}")
        self.decision = decision
        self.retry_after = decision.retry_after


class NoAnswer(Limited):
    """No server answered, and the client denied the request because it is CLOSED."""


def denial(decision: Decision) -> Limited:
    return Limited(decision) if decision.answered else NoAnswer(decision)


def seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


# The rule's name as an RFC 8941 string, which is ASCII. If the limit is not the rule's first, "/"
# and the limit's index follow the name.
def _name(limit: pb.LimitStatus) -> str:
    rule = "".join(c if " " <= c < "\x7f" else "?" for c in limit.rule)
    rule = rule.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{rule}/{limit.index}"' if limit.index else f'"{rule}"'
