"""Renews the leases of a client on one thread, and releases them."""

from __future__ import annotations

import heapq
import sys
import threading
import time
from typing import Any, Callable

import grpc

RELEASE_TIMEOUT = 5  # seconds


class LeaseKeeper:
    """renew(lease_id, timeout) and release(lease_id, timeout) start a call. Thread-safe."""

    def __init__(self, renew: Callable[[str, float], Any], release: Callable[[str, float], Any]):
        self._renew, self._release = renew, release
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None  # started with the first lease
        self._closed = False
        self._held: dict[str, float] = {}  # period of renewal by lease
        self._due: list[tuple[float, str]] = []  # a heap of (when, lease)
        self._releases: set[Any] = set()  # pending calls

    def hold(self, lease_id: str, ttl: float) -> None:
        """Renews the lease, each time after a third of its ttl."""
        with self._changed:
            self._held[lease_id] = period = max(ttl / 3, 0.001)
            heapq.heappush(self._due, (time.monotonic() + period, lease_id))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sluice-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def release(self, lease_id: str) -> None:
        """Does not wait for the answer. If the call is lost, the slot is free after the ttl."""
        if sys.is_finalizing():
            return  # a generator that was never closed: gRPC would wait forever for its thread
        with self._changed:
            self._held.pop(lease_id, None)
        call = self._release(lease_id, RELEASE_TIMEOUT)
        self._releases.add(call)
        call.add_done_callback(self._releases.discard)

    def close(self) -> None:
        """Ends the renewals, and waits until pending releases are answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        for call in list(self._releases):
            call.exception()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                while self._due and self._due[0][0] <= now:
                    self._renew_next(now)
                self._changed.wait(self._due[0][0] - now if self._due else None)

    def _renew_next(self, now: float) -> None:
        _, lease_id = heapq.heappop(self._due)
        period = self._held.get(lease_id)
        if period is None:
            return  # released

        def answered(call: Any) -> None:
            if call.code() == grpc.StatusCode.NOT_FOUND:  # the lease is lost; the work continues
                with self._changed:
                    self._held.pop(lease_id, None)

        self._renew(lease_id, period).add_done_callback(answered)
        heapq.heappush(self._due, (now + period, lease_id))
