"""Prints what each on_store_failure policy admits in two cases: Redis answers too late, or too many
checks wait for Redis. In the first case, tests that Redis has counted exactly the admitted checks
after the recovery. In the second case, tests that the policy decides each check that cannot wait.

Usage: slow_redis.py SLUICE SLUICED DIRECTORY_OF_GENERATED_MESSAGES
"""

import collections
import concurrent.futures
import contextlib
import re
import subprocess
import unittest

import fleet
import running
from sluice.v1 import rate_limiter_pb2 as pb

POLICIES = ("local", "allow", "deny", "error")
LIMIT = 1_000_000
RULES = "domain: shop\nrules:\n" + "".join(f"""
  - name: {policy}
    match: {{endpoint: /{policy}}}
    per: [user]
    on_store_failure: {policy}
    limits: [{{algorithm: fixed_window, limit: {LIMIT}, window: 1d}}]
""" for policy in POLICIES)

AT_FIRST = 10  # checks to each server, before it has found that Redis is slow
AFTER = 300
BATCHES = 3  # of 1,000 checks each; at most 1,000 checks may wait at a time
OPENINGS = "sluice_redis_breaker_openings_total"

COUNT = """local state = redis.call('GET', KEYS[1])
return state and string.format('%d', (select(2, struct.unpack('<ddd', state, 5)))) or '0'"""


class SlowRedisTest(unittest.TestCase):
    flags = ()

    def setUp(self):
        self.fleet = fleet.Fleet(self.flags, RULES)
        running.wait_until(lambda: max(self.values("sluice_fleet_share")) < 0.5, 10,
                           "the servers have counted each other")

    def values(self, series):
        """The value of a series, for each server."""
        pattern = re.compile(rf"^{re.escape(series)} (.*)", re.M)
        return [float(pattern.search(running.get(f"http://{page}/metrics"))[1])
                for page in self.fleet.pages]

    def recover(self, policy):
        self.fleet.set_distance(0)
        request = fleet.check(f"/{policy}", "other", cost=0)
        for server in range(fleet.SERVERS):
            running.wait_until(lambda: self.asks_redis(server, request), 10, "Redis is asked")

    def asks_redis(self, server, request):
        try:
            return all(self.fleet.check(server, request).source == pb.SOURCE_STORE
                       for _ in range(2))
        except fleet.grpc.RpcError:
            return False  # on_store_failure: error

    def counted(self, policy, user):
        """The count in Redis, independent of the servers' answers."""
        key = f"sluice:{{shop/{policy}/user={user}}}:fixed_window:1d"
        found = subprocess.run(["redis-cli", "-s", self.fleet.redis_socket, "eval", COUNT, "1", key],
                               stdin=subprocess.DEVNULL, capture_output=True, check=True,
                               timeout=10, text=True)
        return int(found.stdout)


class TooLateTest(SlowRedisTest):
    def test_redis_counts_the_admitted_checks(self):
        for policy in POLICIES:
            with self.subTest(policy):
                undisturbed = (self.judge(policy, f"user{attempt}") for attempt in range(20))
                self.assertTrue(any(undisturbed), "in every attempt, a breaker did not stay open")

    def all_open(self):
        return min(self.values("sluice_redis_breaker_state")) > 0

    def judge(self, policy, user):
        """Returns False if a breaker did not open, or closed again. The cause is a server that was
        stalled for so long that it could not measure Redis' latency."""
        self.recover(policy)
        openings = sum(self.values(OPENINGS))
        self.fleet.set_distance(20)
        at_first = self.ask(policy, user, AT_FIRST)
        with contextlib.suppress(AssertionError):
            running.wait_until(self.all_open, 1, "all breakers are open")
        if not self.all_open():
            return False
        after = self.ask(policy, user, AFTER)
        charged = self.counted(policy, user)
        after += self.ask(policy, user, AFTER)
        charged_after = self.counted(policy, user) - charged
        stayed_open = self.all_open()
        openings = sum(self.values(OPENINGS)) - openings
        self.recover(policy)
        passed = at_first["ALLOWED"] + after["ALLOWED"]
        running.wait_until(lambda: self.counted(policy, user) == passed, 5,
                           "Redis has counted the admitted checks")
        print(f"Redis 20 ms away, {policy}: at first {dict(at_first)}, {charged} of them charged; "
              f"with the breaker open {dict(after)}, {charged_after} of them charged; "
              f"afterward Redis counts {passed}", flush=True)
        if not stayed_open or openings > fleet.SERVERS:
            return False
        self.assertLessEqual(charged, fleet.SERVERS * AT_FIRST)
        self.assertEqual(charged_after, 0)
        self.assertEqual(after["STORE"], 0)
        asked = fleet.SERVERS * (AT_FIRST + 2 * AFTER)
        self.assertIn(passed, {"local": range(asked + 1), "allow": [asked]}.get(policy, [0]))
        return True

    def ask(self, policy, user, checks):
        """Sends `checks` checks to each server, all at once."""
        callers = [fleet.Caller(address) for address in self.fleet.addresses]
        count = collections.Counter()
        for caller in callers:
            self.addCleanup(caller.sock.close)
            for _ in range(checks):
                caller.check(fleet.check(f"/{policy}", user))
        for caller in callers:
            answers = caller.answers()
            count["UNAVAILABLE"] += checks - len(answers)
            for answer in answers:
                count[pb.Source.Name(answer.source).removeprefix("SOURCE_")] += 1
                count[pb.Decision.Name(answer.decision).removeprefix("DECISION_")] += 1
        return +count


class OverloadTest(SlowRedisTest):
    flags = ("--redis-timeout", "900ms")

    def test_policy_decides_if_too_many_checks_wait(self):
        for number, policy in enumerate(POLICIES):
            with self.subTest(policy):
                self.judge(policy, number % fleet.SERVERS)

    def judge(self, policy, server):
        self.recover(policy)
        self.fleet.set_distance(50)
        overloaded = 'sluice_store_failures_total{kind="overloaded"}'
        before = sum(self.values(overloaded))
        request = pb.CheckLimitsRequest(checks=[fleet.check(f"/{policy}", "user")] * 1000)
        count = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(BATCHES) as pool:
            batches = [pool.submit(self.fleet.call, server, "CheckLimits", request,
                                   pb.CheckLimitsResponse, 5) for _ in range(BATCHES)]
            for batch in batches:
                count.update(self.outcome(item) for item in batch.result().results)
        beyond = sum(self.values(overloaded)) - before
        print(f"too many checks wait, {policy}: {dict(count)}; {beyond:.0f} could not wait",
              flush=True)
        self.assertGreater(beyond, 0)
        self.assertEqual(count[{"local": "FALLBACK DENIED, retry after 900 ms",
                                "allow": "FALLBACK ALLOWED",
                                "deny": "FALLBACK DENIED, retry after 1000 ms",
                                "error": "UNAVAILABLE"}[policy]], beyond)
        self.assertEqual(sum(count.values()), count["STORE ALLOWED"] + beyond)

    def outcome(self, item):
        if item.HasField("error"):
            return "UNAVAILABLE" if item.error.code == 14 else f"error {item.error.code}"
        answer = item.response
        source = pb.Source.Name(answer.source).removeprefix("SOURCE_")
        if answer.decision == pb.DECISION_ALLOWED:
            return f"{source} ALLOWED"
        return f"{source} DENIED, retry after {answer.retry_after.ToMilliseconds()} ms"


if __name__ == "__main__":
    unittest.main()
