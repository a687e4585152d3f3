"""Callers cancel, set short deadlines, stop reading and disconnect at random, while Redis stalls at
random. Within a second after the last call has ended and the last lease is released, every slot is
free, regardless of its ttl.

Usage: held_slots.py SLUICE SLUICED DIRECTORY_OF_GENERATED_MESSAGES [CHECKS [SEED]]
A million checks take 2 minutes (docs/outages.md). The servers log to standard error.
"""

import collections
import contextlib
import random
import select
import subprocess
import sys
import time
import unittest

import fleet  # finds the modules below
import http2
import running
from caller import CANCEL, PATH, Caller
from sluice.v1 import rate_limiter_pb2 as pb

CHECKS, SEED = (int(text) for text in (sys.argv[1:] + ["20000", "1"][len(sys.argv) - 1:]))
del sys.argv[1:]

RULES = """
domain: shop
rules:
  - name: local
    match: {endpoint: /local}
    per: [user]
    limits: [{algorithm: concurrency, limit: 5, ttl: 6h}]
  - name: error
    match: {endpoint: /error}
    per: [user]
    on_store_failure: error
    limits: [{algorithm: concurrency, limit: 5, ttl: 6h}]
  - name: allow
    match: {endpoint: /allow}
    per: [user]
    on_store_failure: allow
    limits: [{algorithm: concurrency, limit: 5, ttl: 6h}]
  - name: gated
    match: {endpoint: /gated}
    per: [user]
    limits: [{algorithm: concurrency, limit: 5, ttl: 6h}]
  - name: gate
    match: {endpoint: /gated}
    on_store_failure: deny
    deny_cache: false
    limits: [{algorithm: token_bucket, rate: 200/s, burst: 20}]
"""
ENDPOINTS = ("/local", "/error", "/allow", "/gated")
USERS = 40  # of each endpoint
CONNECTIONS = 8  # to each server
OPEN_AT_ONCE = 60  # calls of a connection
TIMEOUTS = ("", "", "", "1n", "100u", "500u", "1m", "3m", "9m", "10m", "11m", "13m", "25m")
BATCH_PATH = PATH + b"s"
RELEASE_PATH = b"/sluice.v1.RateLimiter/ReleaseLease"
# Callers cancel a call only within this many seconds after they sent it. If the server has already
# answered, it releases the slot only if the cancellation arrives within a second after the answer.
PATIENCE = 0.5

HELD = """local held = {}
for _, key in ipairs(redis.call('KEYS', 'sluice:*:concurrency*')) do
  local slots = redis.call('ZCOUNT', key, '(0', '+inf')
  if slots > 0 then held[#held + 1] = key .. ': ' .. slots end
end
return held"""


class Holder(Caller):
    """A connection of callers. They know the leases of the answers that they have read."""

    def __init__(self, server, address):
        super().__init__(address)
        self.server = server
        self.calls = {}  # by stream: when the call was sent, its path, the lease to release
        self.still_until = 0.0

    def send(self, path, request, timeout="", lease=None):
        self.sock.sendall(b"".join(self.frames(request, timeout, path)))
        self.calls[self.stream] = (time.monotonic(), path, lease)

    def cancel(self, stream):
        """Cancels a call and drops its answer, unless the call is a release or was sent too long
        ago. Returns the number of canceled calls."""
        sent, path, _ = self.calls[stream]
        if path == RELEASE_PATH or time.monotonic() - sent > PATIENCE:
            return 0
        self.sock.sendall(http2.frame(http2.RST_STREAM, 0, stream, CANCEL))
        self.bodies.pop(stream, None)
        del self.calls[stream]
        return 1

    def take(self, kind, flags, stream, payload):
        if kind == http2.DATA and stream in self.calls:
            self.bodies[stream] = self.bodies.get(stream, b"") + payload
        ends = kind in (http2.DATA, http2.HEADERS) and flags & http2.END_STREAM
        if stream in self.calls and (ends or kind == http2.RST_STREAM):
            self.ended.append((*self.calls.pop(stream)[1:], self.bodies.pop(stream, b"")))

    def read(self):
        """Returns the calls that have ended since the last read: path, lease to release, body."""
        self.ended = []
        for frame in self.reader.frames():
            self.take(*frame)
        return self.ended

    def hang_up(self):
        """Disconnects. Returns all open calls, in the form of read(). An unanswered call has no
        body."""
        self.ended = []
        self.leave()
        self.ended += [(path, lease, b"") for _, path, lease in self.calls.values()]
        return self.ended


def answers_of(path, body):
    if path == BATCH_PATH:
        return [result.response for result in pb.CheckLimitsResponse.FromString(body).results
                if result.HasField("response")]
    return [pb.CheckLimitResponse.FromString(body)]


class HeldSlots(unittest.TestCase):
    def setUp(self):
        self.fleet = fleet.Fleet((), RULES)
        self.random = random.Random(SEED)
        self.holders = [self.connect(server) for server in range(fleet.SERVERS)
                        for _ in range(CONNECTIONS)]
        self.requests = [fleet.check(endpoint, f"{user}") for endpoint in ENDPOINTS
                         for user in range(USERS)]
        self.leases = []  # server, id
        self.releasing = 0
        self.count = collections.Counter()
        self.stalls = contextlib.ExitStack()
        self.addCleanup(self.stalls.close)
        self.stalled_until = None
        self.next_stall = 0.0

    def connect(self, server):
        holder = Holder(server, self.fleet.addresses[server])
        self.addCleanup(lambda: holder.sock.close())
        return holder

    def test_all_slots_are_free_after_the_last_release(self):
        shown = begin = time.monotonic()
        print(f"seed {SEED}", flush=True)
        while self.count["checks"] < CHECKS:
            self.stall()
            self.act(self.random.randrange(len(self.holders)))
            self.read(0)
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                print(f"{shown - begin:.0f} s: {dict(self.count)}, {len(self.leases)} leases held",
                      flush=True)
        self.end_stall()
        self.all_leave()
        gone = time.monotonic()
        print(f"{gone - begin:.0f} s: {dict(self.count)}", flush=True)
        running.wait_until(lambda: not self.held(), 1, "all slots are free in Redis")
        print(f"all slots free after {time.monotonic() - gone:.3f} s", flush=True)
        self.judge_local_slots()

    # The actions of callers.

    def act(self, number):
        holder = self.holders[number]
        what = self.random.random()
        if what < 0.01:
            self.note(holder, holder.hang_up())
            self.holders[number] = self.connect(holder.server)
            self.count["disconnected"] += 1
        elif what < 0.02:
            holder.still_until = time.monotonic() + self.random.uniform(0, 0.3)
            self.count["stopped reading"] += 1
        elif what < 0.3:
            for stream in list(holder.calls):
                if self.random.random() < 0.3:
                    self.count["canceled"] += holder.cancel(stream)
        elif what < 0.6:
            self.release(self.random.randrange(1, 20))
        elif len(holder.calls) < OPEN_AT_ONCE:
            for _ in range(self.random.randrange(1, 20)):
                self.check(holder)

    def check(self, holder):
        timeout = self.random.choice(TIMEOUTS)
        checks = self.random.randrange(2, 10) if self.random.random() < 0.1 else 1
        self.count["checks"] += checks
        if checks == 1:
            holder.send(PATH, self.random.choice(self.requests), timeout)
        else:
            chosen = self.random.choices(self.requests, k=checks)
            holder.send(BATCH_PATH, pb.CheckLimitsRequest(checks=chosen), timeout)
        if self.random.random() < 0.05:
            self.count["canceled"] += holder.cancel(holder.stream)

    def release(self, most):
        """Releases up to `most` leases: leases from Redis on any server, local leases on the server
        that granted them."""
        for _ in range(min(most, len(self.leases))):
            server, lease = self.leases.pop(self.random.randrange(len(self.leases)))
            if ".local " not in lease:
                server = self.random.randrange(fleet.SERVERS)
            holder = self.holders[CONNECTIONS * server + self.random.randrange(CONNECTIONS)]
            holder.send(RELEASE_PATH, pb.ReleaseLeaseRequest(lease_id=lease), lease=lease)
            self.releasing += 1

    def read(self, patience):
        """Reads answers and records them."""
        now = time.monotonic()
        reading = [holder for holder in self.holders if holder.still_until <= now]
        for holder in select.select(reading, [], [], patience)[0]:
            self.note(holder, holder.read())

    def note(self, holder, ended):
        for path, lease, body in ended:
            if lease is not None:
                self.releasing -= 1
                if not body:
                    # Redis is unavailable, or the connection has ended: try again later.
                    self.leases.append((holder.server, lease))
                continue
            for answer in answers_of(path, body[5:]) if body else ():
                source = pb.Source.Name(answer.source).removeprefix("SOURCE_")
                self.count[f"{source} {'ALLOWED' if answer.decision == 1 else 'DENIED'}"] += 1
                if answer.lease.id:
                    self.leases.append((holder.server, answer.lease.id))

    def all_leave(self):
        """Waits for all answers and releases all slots."""
        deadline = time.monotonic() + 20
        while self.leases or self.releasing or any(holder.calls for holder in self.holders):
            self.assertLess(time.monotonic(), deadline, "calls without an answer")
            self.release(100)
            self.read(0.05)

    # The actions of Redis.

    def stall(self):
        now = time.monotonic()
        if self.stalled_until is not None and now >= self.stalled_until:
            self.end_stall()
        elif self.stalled_until is None and now >= self.next_stall:
            self.stalled_until = now + self.random.choice((0.003, 0.009, 0.015, 0.04, 0.08, 0.2))
            self.stalls.enter_context(self.random.choice((self.fleet.hung, self.fleet.slow))())
            self.count["stalls"] += 1

    def end_stall(self):
        self.stalls.close()
        self.stalled_until = None
        self.next_stall = time.monotonic() + self.random.uniform(0.05, 0.5)

    # The slots held at the end.

    def held(self):
        return subprocess.run(["redis-cli", "-s", self.fleet.redis_socket, "eval", HELD, "0"],
                              stdin=subprocess.DEVNULL, capture_output=True, check=True,
                              timeout=10, text=True).stdout.split("\n", 1)[0]

    def judge_local_slots(self):
        """Expects that all slots that servers granted without Redis are free."""
        with self.fleet.hung():
            for server in range(fleet.SERVERS):
                for user in range(USERS):
                    limit = self.peek(server, user).limits[0]
                    self.assertEqual(limit.remaining, limit.limit, f"server {server}, {user}")
        print("all local slots free")

    def peek(self, server, user):
        request = fleet.check("/local", f"{user}", cost=0)
        return running.wait_until(
            lambda: (answer := self.fleet.check(server, request)).source == pb.SOURCE_FALLBACK
            and answer, 5, "servers send no checks to Redis")


if __name__ == "__main__":
    unittest.main()
