"""How the work under a lease of slots went. `concurrency` limits with `adapt` learn from it."""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
import threading
import time
from typing import Any, Callable, Literal, NamedTuple

import grpc

from . import rate_limiter_pb2 as pb

OVERLOAD_CODES = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED,
                  grpc.StatusCode.UNAVAILABLE}
_PERIOD = 1.0  # seconds over which the CPU is measured


class Hold(NamedTuple):
    """How the work went, as fields of a release or a settlement."""
    outcome: str = "ok"
    duration: float | None = None

    def write(self, request: Any) -> None:
        """Writes the fields into a ReleaseLeaseRequest or SettleLeaseRequest."""
        request.hold_outcome = pb.HoldOutcome.Value(f"HOLD_OUTCOME_{self.outcome.upper()}")
        if self.duration is not None:
            request.duration.FromNanoseconds(round(self.duration * 1e9))


class Work:
    """The work for which slots are held."""
    _outcome: str | None = None
    _duration: float | None = None
    response_overload = False  # whether the response's status means overload

    def report(self, outcome: Literal["ok", "overload", "ignore", None] = None, *,
               duration: float | None = None) -> None:
        """Sets how the work went: "ok", "overload", or "ignore" if the work shows nothing about the
        load. The outcome set here replaces what the work's error would show. duration: how many
        seconds the work took; unless set, for how long the slot was held."""
        if outcome not in (None, "ok", "overload", "ignore"):
            raise ValueError(f"outcome is {outcome!r}; allowed are 'ok', 'overload' and 'ignore'")
        if duration is not None and not duration >= 0:
            raise ValueError(f"duration is {duration!r}; it must be a number of at least 0")
        self._outcome = outcome or self._outcome
        self._duration = self._duration if duration is None else duration

    def ended(self, error: BaseException | None, overloaded: Callable[[], bool]) -> Hold:
        """How the ended work went. `overloaded` returns whether this process is overloaded. If it
        raises an exception, the process counts as not overloaded."""
        overload = self.response_overload
        if error is None and not overload:
            try:
                overload = overloaded()
            except Exception:  # the work's result must not be lost
                logging.getLogger(__name__).exception("the function `overloaded` has failed")
        return Hold(self._outcome or ("overload" if overload else outcome_of(error)), self._duration)


def outcome_of(error: BaseException | None) -> str:
    """"ok" if there is no error. "overload" for a timeout, a broken or refused connection, lack of
    memory, or an HTTP or gRPC status that means overload, as the usual libraries report it.
    Otherwise "ignore"."""
    if error is None:
        return "ok"
    if isinstance(error, (TimeoutError, asyncio.TimeoutError, ConnectionError, MemoryError)):
        return "overload"
    if isinstance(error, grpc.RpcError):
        code = getattr(error, "code", None)
        return "overload" if code and code() in OVERLOAD_CODES else "ignore"
    statuses = (getattr(getattr(error, "response", None), "status_code", None),  # requests, httpx
                getattr(error, "status", None), getattr(error, "code", None))  # aiohttp, urllib
    return "overload" if any(is_overload(status) for status in statuses) else "ignore"


def is_overload(status: Any) -> bool:
    """Whether an HTTP status means overload: it is 429, or 500 or more."""
    return isinstance(status, int) and (status == 429 or status >= 500)


def above(*, cpu: float | None = None, memory: float | None = None,
          cgroup: str | None = None) -> Callable[[], bool]:
    """A function for Client(overloaded=…), such as above(cpu=0.9, memory=0.85). It returns whether
    the cgroup (v2) of this process uses more than the given part of its CPU or of its memory. If
    the cgroup has no limit, the machine's CPU or memory is the limit. Without cgroups, only the use
    of this process counts. CPU is measured over at least a second. `cgroup`: the folder of a cgroup
    to measure in place of this process's own."""
    load = _Load(pathlib.Path(cgroup) if cgroup else _own_cgroup())
    return lambda: ((cpu is not None and load.cpu() > cpu)
                    or (memory is not None and load.memory() > memory))


def _own_cgroup() -> pathlib.Path:
    try:
        lines = pathlib.Path("/proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    return pathlib.Path("/sys/fs/cgroup", path.lstrip("/"))


class _Load:
    """Thread-safe."""

    def __init__(self, cgroup: pathlib.Path):
        self._cgroup, self._lock = cgroup, threading.Lock()
        self._time, self._used, self._share = time.monotonic(), self._cpu_seconds(), 0.0

    def cpu(self) -> float:
        with self._lock:
            now = time.monotonic()
            if now - self._time >= _PERIOD:
                used, before = self._cpu_seconds(), self._used
                self._share = (used - before) / (now - self._time) / self._cpus()
                self._time, self._used = now, used
            return self._share

    def memory(self) -> float:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        most = self._read("memory.max")
        used = self._read("memory.current")
        if used:
            return int(used[0]) / (int(most[0]) if most and most[0] != "max" else pages)
        resident = int(pathlib.Path("/proc/self/statm").read_text("ascii").split()[1])
        return resident * os.sysconf("SC_PAGE_SIZE") / pages

    def _cpu_seconds(self) -> float:
        stat = self._read("cpu.stat")  # usage_usec N …
        return int(stat[1]) / 1e6 if stat else time.process_time()

    def _cpus(self) -> float:
        most = self._read("cpu.max")  # quota and period, in microseconds
        if most and most[0] != "max":
            return int(most[0]) / int(most[1])
        return os.cpu_count() or 1

    def _read(self, name: str) -> list[str]:
        try:
            return (self._cgroup / name).read_text("ascii").split()
        except OSError:
            return []
