"""A fleet under attack: three sluiced on one redis-server behind a gate.

Each attack is a program. Most of these programs have an AttackTest: its attack() runs with Redis
healthy, slow and hung, and with all cores busy. In all four cases, the limits must hold as promised
in docs/outages.md. Each test prints the answers and the admissions.

Usage of each: ATTACK.py SLUICE SLUICED DIRECTORY_OF_GENERATED_MESSAGES
"""

import collections
import contextlib
import pathlib
import re
import sys
import unittest

SLUICE, SLUICED, GENERATED = sys.argv[1:4]
del sys.argv[1:4]
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [GENERATED, str(HERE.parent / "system")]

import grpc  # noqa: E402
import running  # noqa: E402
from caller import Caller  # noqa: E402
from sluice.v1 import rate_limiter_pb2 as pb  # noqa: E402

SERVERS = 3
LIMIT = 5  # of every rule, for each user

# The deny cache is off, so that every check reaches Redis.
RULES = f"""
domain: shop
rules:
  - name: daily
    match: {{endpoint: /daily}}
    per: [user]
    deny_cache: false
    limits: [{{algorithm: fixed_window, limit: {LIMIT}, window: 1d}}]
  - name: open
    match: {{endpoint: /open}}
    per: [user]
    deny_cache: false
    on_store_failure: allow
    limits: [{{algorithm: fixed_window, limit: {LIMIT}, window: 1d}}]
  - name: bucket
    match: {{endpoint: /bucket}}
    per: [user]
    deny_cache: false
    limits: [{{algorithm: token_bucket, rate: {LIMIT}/d, burst: {LIMIT}}}]
  - name: slots
    match: {{endpoint: /slots}}
    per: [user]
    limits: [{{algorithm: concurrency, limit: {LIMIT}, ttl: 1h}}]
"""


class Fleet:
    def __init__(self, flags, rules=RULES):
        folder = running.directory()
        self.redis_socket = folder / "redis.sock"
        self.redis, _ = running.start_redis(folder)
        self.gate, port = running.start_gate(self.redis_socket)
        url = f"redis://127.0.0.1:{port}"
        (folder / "rules").mkdir()
        (folder / "rules/shop.yaml").write_text(rules, encoding="utf-8")
        command = [SLUICED, "--rules", folder / "rules", "--redis", url, "--grpc", "127.0.0.1:0",
                   "--http", "127.0.0.1:0", "--admin", "off", *flags]
        started = [running.start(command, "ready grpc=") for _ in range(SERVERS)]
        self.servers = [process for process, _ in started]
        self.addresses = [line.split("grpc=")[1].split()[0] for _, line in started]
        self.pages = [line.split("http=")[1].split()[0] for _, line in started]
        self.channels = [grpc.insecure_channel(address) for address in self.addresses]

    def call(self, server, method, request, answer, timeout=2):
        """Returns the answer, or raises a grpc.RpcError."""
        return self.channels[server].unary_unary(
            f"/sluice.v1.RateLimiter/{method}", request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString)(request, timeout=timeout)

    def check(self, server, request):
        return self.call(server, "CheckLimit", request, pb.CheckLimitResponse)

    def policy_admissions(self, rule):
        """The number of the rule's checks that were allowed without Redis, from the metrics."""
        series = re.compile(f'sluice_checks_total{{(?=.*decision="allowed")(?=.*rule="{rule}")'
                            '(?=.*source="fallback").*} (.*)')
        return sum(float(count) for page in self.pages
                   for count in series.findall(running.get(f"http://{page}/metrics")))

    def resident_megabytes(self):
        """The memory of the largest server."""
        return max(running.resident_megabytes(server) for server in self.servers)

    @contextlib.contextmanager
    def healthy(self):
        yield

    @contextlib.contextmanager
    def slow(self):
        self.set_distance(20)
        yield
        self.set_distance(0)

    def set_distance(self, milliseconds):
        """Adds this delay to each round trip to Redis."""
        running.tell_gate(self.gate, "delay", milliseconds)

    def hung(self):
        return running.stopped(self.redis)

    def busy(self):
        return running.busy_cores()


def check(endpoint, user, **fields):
    return pb.CheckLimitRequest(domain="shop", attributes={"endpoint": endpoint, "user": user},
                                **fields)


class AttackTest(unittest.TestCase):
    flags = ()
    endpoints = ("/daily", "/bucket")  # whose limits are used up before the attack

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(cls.flags)

    def setUp(self):
        self.admitted = collections.Counter()  # by source
        self.answered = collections.Counter()  # by source and decision
        self.user = self.id().rpartition("_")[2]

    def test_promise_holds_while_redis_is_healthy(self):
        self.run_under(self.fleet.healthy)

    def test_promise_holds_while_redis_is_slow(self):
        self.run_under(self.fleet.slow)

    def test_promise_holds_while_redis_is_hung(self):
        self.run_under(self.fleet.hung)

    def test_promise_holds_while_cores_are_busy(self):
        self.run_under(self.fleet.busy)

    def run_under(self, condition):
        self.prepare()
        with condition():
            self.attack()
        self.recover()
        self.judge()
        print(f"{type(self).__name__}, {self.user}: answers {dict(self.answered)}, "
              f"admitted {dict(self.admitted)}", flush=True)

    def prepare(self):
        """Uses up the user's limits, until Redis has denied a check from every server."""
        for endpoint in self.endpoints:
            for server in range(SERVERS):
                running.wait_until(lambda: self.is_denied_by_redis(server, endpoint), 10, "spent")

    def is_denied_by_redis(self, server, endpoint):
        answer = self.fleet.check(server, check(endpoint, self.user))
        return answer.decision == pb.DECISION_DENIED and answer.source == pb.SOURCE_STORE

    def recover(self):
        for server in range(SERVERS):
            running.wait_until(lambda: self.asks_redis(server), 10, "Redis is asked again")

    def asks_redis(self, server):
        """Asks twice, because after Redis' first decision, some decisions are still local."""
        peek = check("/daily", "other", cost=0)
        return all(self.fleet.check(server, peek).source == pb.SOURCE_STORE for _ in range(2))

    def callers(self):
        """Connects new callers, one to each server."""
        callers = [Caller(address) for address in self.fleet.addresses]
        for caller in callers:
            self.addCleanup(caller.sock.close)
        return callers

    def note(self, answers, may_wait=0):
        """Counts answers. An allowed check is an admission if it waits at most `may_wait` s."""
        for answer in answers:
            source = pb.Source.Name(answer.source).removeprefix("SOURCE_")
            decision = pb.Decision.Name(answer.decision).removeprefix("DECISION_")
            self.answered[f"{source} {decision}"] += 1
            if decision == "ALLOWED" and answer.wait.seconds <= may_wait:
                self.admitted[source] += 1

    def judge(self):
        """Expects no admission, since the limits were used up before the attack. Some attacks
        override this."""
        self.assertEqual(self.admitted, {},
                         f"admitted beyond the limit; answers: {dict(self.answered)}")
