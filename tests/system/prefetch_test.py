"""Prefetched units on several real servers with one Redis: nothing is admitted beyond the limit,
and many decisions do not need Redis. Unused units are returned when rules change, when a server
drains, and before their grant ends.

Usage: prefetch_test.py SLUICE SLUICED PYTHON_PROTO

In the environment, PREFETCH_SERVERS and PREFETCH_SECONDS set the number of servers and the duration
of the bucket's test (default: 3 and 5).
"""

import concurrent.futures
import os
import signal
import subprocess
import sys
import time
import unittest

SLUICE, SLUICED = sys.argv[1:3]
sys.path.insert(0, sys.argv[3])

# pylint: disable=wrong-import-position
import running
from doors import Grpc, api

LIMIT = 1000
RULES = """
domain: shop
rules:
  - name: {name}
    limits: [{{algorithm: fixed_window, limit: {limit}, window: 30d{prefetch}}}]
"""
BUCKET = """
domain: shop
rules:
  - name: bucket
    limits: [{algorithm: token_bucket, rate: 100/s, burst: 300, prefetch: 500ms}]
"""
PLAIN_BYTES = 28  # the length of a window's Redis string while servers hold no units


def rules_of(name, prefetch=", prefetch: 10s"):
    return RULES.format(name=name, limit=LIMIT, prefetch=prefetch)


class Server:
    def __init__(self, redis, rules):
        self.folder = running.directory()
        self.rules = self.folder / "shop.yaml"
        self.rules.write_text(rules, encoding="utf-8")
        self.process, ready = running.start(
            [SLUICED, "--rules", self.folder, "--redis", redis, "--grpc", "127.0.0.1:0",
             "--http", "127.0.0.1:0", "--admin", f"unix:{self.folder}/admin.sock",
             "--redis-timeout", "60s"], "ready grpc=")
        self.grpc = Grpc(ready.split("grpc=")[1].split()[0])
        self.http = "http://" + ready.split("http=")[1].split()[0]

    def check(self):
        answer = self.grpc.check()
        assert not isinstance(answer, str), answer
        return answer

    def allows(self):
        return self.check().decision == api.DECISION_ALLOWED

    def warm(self):
        """Sends checks until one is decided by a grant. Returns how many were allowed."""
        allowed = 0
        for _ in range(100):
            answer = self.check()
            allowed += answer.decision == api.DECISION_ALLOWED
            if answer.source == api.SOURCE_GRANT:
                return allowed
        raise AssertionError("no check was decided by a grant")


class PrefetchTest(unittest.TestCase):
    rules = 0

    @classmethod
    def setUpClass(cls):
        cls.folder = running.directory()
        cls.redis_process, cls.redis = running.start_redis(cls.folder)

    def setUp(self):
        PrefetchTest.rules += 1
        self.name = f"rule{self.rules}"
        self.key = f"sluice:{{shop/{self.name}/}}:fixed_window:30d"

    def redis_cli(self, *words):
        return subprocess.run(["redis-cli", "-s", self.folder / "redis.sock", *words], check=True,
                              capture_output=True, text=True, timeout=60).stdout.strip()

    def no_units_are_out(self):
        return self.redis_cli("STRLEN", self.key) == str(PLAIN_BYTES)

    def some_units_are_out(self):
        return self.redis_cli("STRLEN", self.key) == str(PLAIN_BYTES + 32)

    def servers(self, count, rules=None):
        return [Server(self.redis, rules or rules_of(self.name)) for _ in range(count)]

    def use_up(self, servers, allowed):
        """Sends checks to all servers until the whole limit is admitted. For this, each server must
        use or return the units that it holds. Returns how many checks were allowed in total."""
        def asked():
            nonlocal allowed
            for server in servers:
                allowed += sum(server.allows() for _ in range(50))
            return allowed >= LIMIT
        running.wait_until(asked, 60, "the whole limit is admitted")
        return allowed

    def test_servers_under_load_admit_exactly_the_limit(self):
        servers = self.servers(4)

        def load(server):
            answers = [server.check() for _ in range(LIMIT // 2)]
            return (sum(it.decision == api.DECISION_ALLOWED for it in answers),
                    sum(it.source == api.SOURCE_GRANT for it in answers))

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            results = list(threads.map(load, servers * 2))
        allowed = sum(it[0] for it in results)
        self.assertLessEqual(allowed, LIMIT)
        self.assertGreater(sum(it[1] for it in results), LIMIT // 3)
        self.assertEqual(self.use_up(servers, allowed), LIMIT)

    def test_no_interval_admits_more_than_the_burst_and_the_refill(self):
        servers = self.servers(int(os.environ.get("PREFETCH_SERVERS", "3")), BUCKET)
        end = time.monotonic() + int(os.environ.get("PREFETCH_SECONDS", "5"))
        passed = []

        def ask(server):
            sent = time.monotonic()
            answer = server.check()
            if answer.decision == api.DECISION_ALLOWED:
                passed.append((sent, time.monotonic(), answer.source))

        def load(server):
            until = time.monotonic() + 3
            while time.monotonic() < until:
                ask(server)

        # Each round begins with a few checks, so that servers hold units while the bucket is full.
        # Then all threads ask at once.
        with concurrent.futures.ThreadPoolExecutor(2 * len(servers)) as threads:
            while time.monotonic() < end:
                for _ in range(60 // len(servers)):
                    list(threads.map(ask, servers))
                    time.sleep(0.02)
                list(threads.map(load, servers * 2))
                time.sleep(3)  # the bucket is full again
        by_grant = sum(source == api.SOURCE_GRANT for _, _, source in passed)
        print(f"{len(passed)} were allowed, {by_grant} of them by grants", file=sys.stderr)
        self.assertGreater(by_grant, 0)
        self.assertGreater(len(passed), 300)
        passed.sort()
        for first in range(0, len(passed), 7):
            begin = passed[first][0]
            ends = sorted(received for _, received, _ in passed[first:])
            for count, end in enumerate(ends, start=1):
                self.assertLessEqual(count, 300 + 100 * (end - begin) + 1)

    def test_new_rules_return_all_units(self):
        server, = self.servers(1)
        allowed = server.warm()
        self.assertTrue(self.some_units_are_out())
        server.rules.write_text(rules_of(self.name, prefetch=""), encoding="utf-8")
        os.kill(server.process.pid, signal.SIGHUP)
        running.wait_until(self.no_units_are_out, 60, "all units are returned")
        self.assertEqual(self.use_up([server], allowed), LIMIT)

    def test_drain_returns_all_units(self):
        first, second = self.servers(2)
        allowed = first.warm()
        self.assertTrue(self.some_units_are_out())
        first.process.send_signal(signal.SIGTERM)
        running.wait_until(self.no_units_are_out, 60, "all units are returned")
        self.assertEqual(self.use_up([second], allowed), LIMIT)

    def test_killed_server_loses_only_the_units_that_it_holds(self):
        first, second = self.servers(2)
        allowed = first.warm()
        first.process.kill()
        for _ in range(LIMIT + 50):
            allowed += second.allows()
        self.assertLess(allowed, LIMIT)
        self.assertGreater(allowed, LIMIT * 7 // 8)

    def test_explain_says_what_servers_hold_and_why_a_check_is_denied(self):
        first, second = self.servers(2)
        first.warm()
        first.process.kill()
        while second.allows():
            pass
        text = subprocess.run(
            [SLUICE, "explain", "--admin", f"unix:{second.folder}/admin.sock", "shop"], check=False,
            timeout=60, stdout=subprocess.PIPE, text=True).stdout
        self.assertRegex(text, r"(?m)^DENIED ")
        self.assertRegex(text, r"(?m)^      servers hold \d+ units \(prefetch\): \d+ until [-0-9T:.]+Z.*; "
                               r"checks are denied until servers return units$")

    def test_idle_server_returns_units_in_time(self):
        server = Server(self.redis, rules_of(self.name, prefetch=", prefetch: 1s"))
        allowed = server.warm()
        self.assertTrue(self.some_units_are_out())
        running.wait_until(self.no_units_are_out, 60, "all units are returned")
        self.assertEqual(self.use_up([server], allowed), LIMIT)

    def test_grants_are_used_while_redis_is_stopped(self):
        server, = self.servers(1)
        server.warm()
        for _ in range(30):
            server.check()  # each grant is larger than the one before
        self.redis_process.send_signal(signal.SIGSTOP)
        try:
            sources = [server.check().source for _ in range(5)]
        finally:
            self.redis_process.send_signal(signal.SIGCONT)
        self.assertEqual(sources, [api.SOURCE_GRANT] * 5)

    def test_reset_ends_the_grants_of_the_server(self):
        server, = self.servers(1)
        server.warm()
        subprocess.run([SLUICE, "reset", "--admin", f"unix:{server.folder}/admin.sock", "shop"],
                       check=True, timeout=60, stdout=subprocess.DEVNULL)
        self.assertEqual(server.check().source, api.SOURCE_STORE)
        self.assertEqual(self.use_up([server], 1), LIMIT)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
