"""The leases of a client. One thread renews them. Releases and settlements run in the
background."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import logging
import random
import sys
import threading
import time
from typing import Any, Callable, Mapping

import grpc

from . import rate_limiter_pb2 as pb
from .decision import seconds
from .outcome import Hold

CALL_TIMEOUT = 5  # seconds, including the time that a call waits for a connection
FIRST_PAUSE, LAST_PAUSE = 0.1, 1.0  # seconds between attempts to settle; the pause doubles


class LeaseKeeper:
    """start(method, request, timeout) starts a call. is_mistake(code): whether a call that failed
    with this code would fail again. Thread-safe."""

    def __init__(self, start: Callable[[str, Any, float], Any], is_mistake: Callable[[Any], bool],
                 settle_for: float, max_settlements: int):
        self._start, self._is_mistake = start, is_mistake
        self._settle_for, self._max_settlements = settle_for, max_settlements
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None  # started when it is first needed
        self._closed = False
        self._held: set[str] = set()  # the leases that are renewed
        self._due: list[tuple[float, int, Callable[[], None]]] = []  # a heap by time and number
        self._numbers = itertools.count()
        self._settling = 0
        self._lost = 0
        self._releases: set[Any] = set()  # pending calls

    def hold(self, lease: pb.Lease) -> None:
        """Renews the lease whenever a third of its ttl has passed."""
        period = max(seconds(lease.ttl) / 3, 0.001)
        with self._changed:
            self._held.add(lease.id)
            self._plan(period, lambda: self._renew(lease.id, period))

    def release(self, lease_id: str, hold: Hold = Hold()) -> None:
        """Releases the lease, without waiting for the answer. If the call is lost, the slot is free
        after the ttl."""
        if sys.is_finalizing():
            # A generator that was never closed ends during the exit. gRPC would then wait forever
            # for a new thread.
            return
        request = pb.ReleaseLeaseRequest(lease_id=lease_id)
        hold.write(request)
        call = self._start("ReleaseLease", request, CALL_TIMEOUT)
        with self._changed:
            self._held.discard(lease_id)
            self._releases.add(call)
        call.add_done_callback(self._released)

    def settle(self, lease_id: str, used: Mapping[str, int], local: bool, hold: Hold = Hold()) -> None:
        """Starts the settlement, which is repeated in the background until it is stored. `local`:
        whether the lease was granted while the store did not answer."""
        if sys.is_finalizing():
            return
        with self._changed:
            self._held.discard(lease_id)
            if self._settling >= self._max_settlements:
                self._report(f"{self._settling} others are waiting")
                return
            self._settling += 1
        amounts = {name: value for name, value in used.items() if name != "cost"}
        request = pb.SettleLeaseRequest(lease_id=lease_id, cost=used.get("cost"), amounts=amounts)
        hold.write(request)
        self._attempt(_Settlement(request, local, time.monotonic() + self._settle_for))

    def close(self, drain: float) -> int:
        """Waits for releases and settlements, at most `drain` seconds. Returns how many settlements
        are lost in total."""
        with self._changed:
            self._changed.wait_for(lambda: not self._settling and not self._releases, drain)
            self._closed = True
            self._changed.notify_all()
            return self._lost + self._settling

    def _plan(self, after: float, action: Callable[[], None]) -> None:
        """Runs the action later. REQUIRES: the caller holds the lock."""
        heapq.heappush(self._due, (time.monotonic() + after, next(self._numbers), action))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sluice-leases", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                actions = []
                while self._due and self._due[0][0] <= now:
                    actions.append(heapq.heappop(self._due)[2])
                if actions:
                    self._changed.release()
                    try:
                        for action in actions:
                            action()
                    finally:
                        self._changed.acquire()
                else:
                    self._changed.wait(self._due[0][0] - now if self._due else None)

    def _renew(self, lease_id: str, period: float) -> None:
        with self._changed:
            if lease_id not in self._held or self._closed:
                return
            self._plan(period, lambda: self._renew(lease_id, period))

        def answered(call: Any) -> None:
            if call.code() == grpc.StatusCode.NOT_FOUND:  # the lease is lost; the work continues
                with self._changed:
                    self._held.discard(lease_id)

        request = pb.RenewLeaseRequest(lease_id=lease_id)
        self._start("RenewLease", request, period).add_done_callback(answered)

    def _released(self, call: Any) -> None:
        with self._changed:
            self._releases.discard(call)
            self._changed.notify_all()

    def _attempt(self, settlement: _Settlement) -> None:
        call = self._start("SettleLease", settlement.request, CALL_TIMEOUT)
        call.add_done_callback(lambda call: self._attempted(call, settlement))

    def _attempted(self, call: Any, settlement: _Settlement) -> None:
        failure = settlement.failure(call)
        pause, settlement.pause = settlement.pause, min(2 * settlement.pause, LAST_PAUSE)
        again = (failure and not self._is_mistake(call.code())
                 and time.monotonic() + pause < settlement.end)
        with self._changed:
            if again and not self._closed:
                self._plan(pause * random.uniform(0.5, 1), lambda: self._attempt(settlement))
                return
            self._settling -= 1
            if failure:
                self._report(failure)
            self._changed.notify_all()

    def _report(self, why: str) -> None:
        """REQUIRES: the caller holds the lock."""
        self._lost += 1
        logging.getLogger(__name__).warning(
            "a settlement is lost, its lease stays charged as taken: %s", why)


@dataclasses.dataclass
class _Settlement:
    request: pb.SettleLeaseRequest
    local: bool
    end: float  # no attempt after this
    pause: float = FIRST_PAUSE  # before the next attempt

    def failure(self, call: Any) -> str:
        """Why the settlement is not stored; "" if it is stored. After QUEUED, the settlement is
        repeated, since the server that answered may die. It is also repeated after NOT_FOUND if the
        lease was taken during an outage: such a lease is not found until its server reaches the
        store."""
        if call.code() != grpc.StatusCode.OK:
            return f"{call.code().name}: {call.details()}"
        outcome = call.result().outcome
        away = outcome == pb.OUTCOME_QUEUED or (self.local and outcome == pb.OUTCOME_NOT_FOUND)
        return "the store does not answer" if away else ""
