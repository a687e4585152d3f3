"""The objects for `with` and `async with`: a limited block, and a reservation."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

from . import rate_limiter_pb2 as pb
from .decision import Decision, denial
from .leases import LeaseKeeper
from .outcome import Work

if TYPE_CHECKING:
    from .client import Attributes, CheckOptions, Client


class LimitedBlock:
    """What Client.limited returns. The variable after `as` gets the decision."""

    def __init__(self, client: Client, domain: str, attributes: Attributes, options: CheckOptions):
        self._client, self._check = client, (domain, attributes, options)
        self._holding = contextlib.ExitStack()

    def __enter__(self) -> Decision:
        domain, attributes, options = self._check
        decision = self._admit(self._client.check(domain, attributes, **options))
        with self._released_on_error():
            if decision.wait > 0:
                time.sleep(decision.wait)
        return decision

    def __exit__(self, *error: Any) -> None:
        self._holding.__exit__(*error)

    async def __aenter__(self) -> Decision:
        domain, attributes, options = self._check
        decision = self._admit(await self._client.check_async(domain, attributes, **options))
        with self._released_on_error():
            await asyncio.sleep(decision.wait)
        return decision

    async def __aexit__(self, *error: Any) -> None:
        self._holding.__exit__(*error)

    def _admit(self, decision: Decision) -> Decision:
        if not decision.allowed:
            raise denial(decision)
        self._holding.enter_context(self._client.holding(decision))
        return decision

    @contextlib.contextmanager
    def _released_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # the sleep was interrupted or canceled
            self._holding.__exit__(*sys.exc_info())
            raise


class _Part(NamedTuple):
    lease_id: str
    held: dict[str, int]
    local: bool  # whether the lease was granted while the store did not answer


class Reservation(Work):
    """What Client.reserve returns: units under a lease, which is renewed while the block runs. Not
    thread-safe."""

    def __init__(self, client: Client, leases: LeaseKeeper,
                 check: tuple[str, Attributes, dict[str, Any]]):
        self._client, self._leases, self._check = client, leases, check
        self._parts: list[_Part] = []  # in the order in which they were taken
        self._used: dict[str, int] = {}
        self._open = True
        self.decision = Decision(False)
        """The decision of the last check. The start of the block and each `extend` make a check."""

    def __enter__(self) -> Reservation:
        with self._unused_on_error():
            self._take(self._first(), self._check[2])
        return self

    def __exit__(self, _: Any, error: BaseException | None, *__: Any) -> None:
        self._settle(error)

    async def __aenter__(self) -> Reservation:
        with self._unused_on_error():
            await self._take_async(self._first(), self._check[2])
        return self

    async def __aexit__(self, _: Any, error: BaseException | None, *__: Any) -> None:
        self._settle(error)

    def use(self, **amounts: int) -> None:
        """Sets what has been used until now, in total: use(tokens=212), use(cost=3). Amounts that
        are never named are settled as taken."""
        for name, value in amounts.items():
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} is {value!r}; it must be an integer of at least 0")
        self._used.update(amounts)

    def extend(self, **amounts: int) -> None:
        """Takes more units for the next part of the work, under a further lease. Does not count as
        a request, and takes no slot unless `cost` is named. If the units are denied, raises
        Limited. If the reservation is settled, raises RuntimeError."""
        self._must_be_open()
        held = _further(amounts)
        self._take(held, self._options(held))

    async def extend_async(self, **amounts: int) -> None:
        """Like extend, without blocking the event loop."""
        self._must_be_open()
        held = _further(amounts)
        await self._take_async(held, self._options(held))

    def settle(self, **amounts: int) -> None:
        """Ends the reservation, and settles it with what was used. The client repeats the
        settlement in the background until it is stored. A second call does nothing."""
        if self._open:
            try:
                self.use(**amounts)
            finally:  # even an invalid amount must not keep the lease
                self._settle(None)

    def _settle(self, error: BaseException | None) -> None:
        if not self._open:
            return
        self._open = False
        hold = self.ended(error, self._client.overloaded)
        for part, share in zip(self._parts, _split(self._parts, self._used)):
            self._leases.settle(part.lease_id, share, part.local, hold)

    def _first(self) -> dict[str, int]:
        options = self._check[2]
        cost = options.get("cost", 1)
        return {"cost": cost, "requests": 1 if cost else 0, **options.get("amounts", {})}

    def _options(self, held: dict[str, int]) -> dict[str, Any]:
        amounts = {name: value for name, value in held.items() if name != "cost"}
        return {**self._check[2], "cost": held["cost"], "amounts": amounts}

    def _take(self, held: dict[str, int], options: Any) -> None:
        domain, attributes, _ = self._check
        decision = self._client.check(domain, attributes, **options)
        self._admit(decision, held)
        if decision.wait > 0:
            time.sleep(decision.wait)

    async def _take_async(self, held: dict[str, int], options: Any) -> None:
        domain, attributes, _ = self._check
        decision = await self._client.check_async(domain, attributes, **options)
        self._admit(decision, held)
        await asyncio.sleep(decision.wait)

    def _admit(self, decision: Decision, held: dict[str, int]) -> None:
        self.decision = decision
        if not decision.allowed:
            raise denial(decision)
        lease = decision.response.lease
        if lease.id:  # else nothing to settle: no rule counts the request, or no server answered
            local = decision.response.source == pb.SOURCE_FALLBACK
            if self._open:
                self._leases.hold(lease)
                self._parts.append(_Part(lease.id, held, local))
            else:
                self._leases.settle(lease.id, dict.fromkeys(held, 0), local)
        self._must_be_open()  # it may have been settled during the check

    def _must_be_open(self) -> None:
        if not self._open:
            raise RuntimeError("the reservation is settled")

    @contextlib.contextmanager
    def _unused_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # denied, or the sleep was interrupted or canceled
            self.use(**dict.fromkeys(self._first(), 0))
            self._settle(error)
            raise


def _further(amounts: dict[str, int]) -> dict[str, int]:
    """The amounts that a further lease holds."""
    return {"cost": 0, **({"requests": 0} if amounts.get("cost") else {}), **amounts}


def _split(parts: list[_Part], used: dict[str, int]) -> list[dict[str, int]]:
    """Distributes the used units over the parts. Each part gets at most the units that it held, and
    the last part gets the rest."""
    left, shares = dict(used), []
    for part in parts:
        held = left if part is parts[-1] else part.held
        share = {name: min(value, held.get(name, 0)) for name, value in left.items()}
        left = {name: value - share[name] for name, value in left.items()}
        shares.append(share)
    return shares
