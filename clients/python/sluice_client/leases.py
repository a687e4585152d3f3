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
FIRST_PAUSE, LAST_PAUSE = 0.1, 1.0  # seconds between attempts; the pause doubles


class LeaseKeeper:
    """start(method, request, timeout) starts a call. If it raises an exception, the attempt has
    failed. is_mistake(code): whether a call that failed with this code would fail again.
    Thread-safe."""

    def __init__(self, start: Callable[[str, Any, float], Any], is_mistake: Callable[[Any], bool],
                 settle_for: float, max_settlements: int):
        self._start, self._is_mistake = start, is_mistake
        self._settle_for, self._max_settlements = settle_for, max_settlements
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None  # started when it is first needed
        self._closed = False
        self._held: set[str] = set()  # the leases that are renewed
        # A heap by time and number. A renewal has the id of its lease.
        self._due: list[tuple[float, int, str | None, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._releasing = 0
        self._settling = 0
        self._lost = 0

    def hold(self, lease: pb.Lease) -> None:
        """Renews the lease whenever a third of its ttl has passed."""
        period = max(seconds(lease.ttl) / 3, 0.001)
        with self._changed:
            self._held.add(lease.id)
            self._plan_renewal(lease.id, period)

    def release(self, lease_id: str, hold: Hold = Hold()) -> None:
        """Releases the lease, without waiting for the answer. The release is repeated for at most
        CALL_TIMEOUT. If it fails, the slot is free after the ttl."""
        if sys.is_finalizing():
            # A generator that was never closed ends during the exit. gRPC would then wait forever
            # for a new thread.
            return
        with self._changed:
            self._forget(lease_id)
            if self._closed:
                return
            self._releasing += 1
        request = pb.ReleaseLeaseRequest(lease_id=lease_id)
        hold.write(request)
        self._attempt(_End("ReleaseLease", request, time.monotonic() + CALL_TIMEOUT))

    def settle(self, lease_id: str, used: Mapping[str, int], local: bool, hold: Hold = Hold()) -> None:
        """Starts the settlement, which is repeated in the background until it is stored. `local`:
        whether the lease was granted while the store did not answer."""
        if sys.is_finalizing():
            return
        with self._changed:
            self._forget(lease_id)
            if self._closed or self._settling >= self._max_settlements:
                self._report("the client is closed" if self._closed
                             else f"{self._settling} others are waiting")
                return
            self._settling += 1
        amounts = {name: value for name, value in used.items() if name != "cost"}
        request = pb.SettleLeaseRequest(lease_id=lease_id, cost=used.get("cost"), amounts=amounts)
        hold.write(request)
        self._attempt(_End("SettleLease", request, time.monotonic() + self._settle_for, local))

    def close(self, drain: float) -> int:
        """Waits for releases and settlements, at most `drain` seconds. Returns how many settlements
        are lost in total."""
        with self._changed:
            self._changed.wait_for(lambda: not self._settling and not self._releasing, drain)
            self._closed = True
            self._changed.notify_all()
            return self._lost + self._settling

    def _plan(self, after: float, action: Callable[[], None], lease_id: str | None = None) -> None:
        """Runs the action later. REQUIRES: the caller holds the lock."""
        heapq.heappush(self._due, (time.monotonic() + after, next(self._numbers), lease_id, action))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sluice-leases", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _plan_renewal(self, lease_id: str, period: float) -> None:
        """REQUIRES: the caller holds the lock."""
        self._plan(period, lambda: self._renew(lease_id, period), lease_id)

    def _forget(self, lease_id: str) -> None:
        """Ends the renewal. Removes the planned renewals of ended leases when they are the most.
        REQUIRES: the caller holds the lock."""
        self._held.discard(lease_id)
        if len(self._due) > 100 + 2 * (len(self._held) + self._releasing + self._settling):
            self._due = [due for due in self._due if due[2] is None or due[2] in self._held]
            heapq.heapify(self._due)

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                actions = []
                while self._due and self._due[0][0] <= now:
                    actions.append(heapq.heappop(self._due)[3])
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
            self._plan_renewal(lease_id, period)

        def answered(call: Any) -> None:
            if call.code() == grpc.StatusCode.NOT_FOUND:  # the lease is lost; the work continues
                with self._changed:
                    self._forget(lease_id)

        request = pb.RenewLeaseRequest(lease_id=lease_id)
        try:
            self._start("RenewLease", request, period).add_done_callback(answered)
        except Exception as error:  # the next renewal is planned
            logging.getLogger(__name__).warning("a lease is not renewed: %r", error)

    def _attempt(self, end: _End) -> None:
        timeout = min(CALL_TIMEOUT, max(end.until - time.monotonic(), FIRST_PAUSE))
        try:
            call = self._start(end.method, end.request, timeout)
        except Exception as error:
            self._attempted(end, repr(error), False)
        else:
            call.add_done_callback(
                lambda call: self._attempted(end, end.failure(call), self._is_mistake(call.code())))

    def _attempted(self, end: _End, failure: str, is_mistake: bool) -> None:
        pause, end.pause = end.pause, min(2 * end.pause, LAST_PAUSE)
        again = failure and not is_mistake and time.monotonic() + pause < end.until
        with self._changed:
            if again and not self._closed:
                self._plan(pause * random.uniform(0.5, 1), lambda: self._attempt(end))
                return
            if end.method == "ReleaseLease":
                self._releasing -= 1
            else:
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
class _End:
    """A release or a settlement."""
    method: str
    request: Any
    until: float  # no attempt after this
    local: bool = False
    pause: float = FIRST_PAUSE  # before the next attempt

    def failure(self, call: Any) -> str:
        """Why the lease has not ended; "" if it has. After QUEUED, a settlement is repeated, since
        the server that answered may die. It is also repeated after NOT_FOUND if the lease was taken
        during an outage: such a lease is not found until its server reaches the store."""
        if call.code() != grpc.StatusCode.OK:
            return f"{call.code().name}: {call.details()}"
        outcome = getattr(call.result(), "outcome", None)  # only a settlement has one
        away = outcome == pb.OUTCOME_QUEUED or (self.local and outcome == pb.OUTCOME_NOT_FOUND)
        return "the store does not answer" if away else ""
