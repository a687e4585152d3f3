"""A client in another language, generated from the .proto files only.

The client uses protoc's Python messages and channel.unary_unary, and no code of this project. It
calls a real sluiced, which uses a real redis-server. It also sends raw bytes that no generated
client would send.

Usage: other_language_test.py SLUICED DIRECTORY_OF_GENERATED_MESSAGES
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc

SLUICED, GENERATED = sys.argv[1:3]
sys.path.insert(0, GENERATED)

from sluice.v1 import rate_limiter_pb2 as pb  # noqa: E402  (needs the path above)

RULES = """
domain: shop
rules:
  - name: pay
    match: {endpoint: /pay}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 2}
  - name: vouchers
    match: {endpoint: /vouchers}
    limits:
      - {algorithm: fixed_window, limit: 10, window: 1h}
"""


def start(command, ready, **options):
    """Starts a process, which is killed after the tests. Returns the process, and its first line
    that contains `ready`."""
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    unittest.addModuleCleanup(process.wait)
    unittest.addModuleCleanup(process.kill)
    line = next(line for line in process.stdout if ready in line)
    # If nobody reads the pipe, the process blocks when the pipe is full.
    threading.Thread(target=pass_on, args=(process.stdout,)).start()
    return process, line


def pass_on(lines):
    with lines:
        sys.stderr.writelines(lines)


def setUpModule():
    global sluiced, channel, check_limit
    directory = tempfile.TemporaryDirectory(prefix="sluice-test-")
    unittest.addModuleCleanup(directory.cleanup)
    socket = os.path.join(directory.name, "redis.sock")
    start(["/usr/bin/redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
           "--dir", directory.name], "ready to accept connections")

    rules = os.path.join(directory.name, "rules")
    os.mkdir(rules)
    with open(os.path.join(rules, "shop.yaml"), "w") as file:
        file.write(RULES)
    # Tolerates a slow machine: see StoreTimeout::kLong in fleet.h.
    sluiced, ready = start(
        [SLUICED, "--rules", rules, "--redis", "unix://" + socket, "--grpc", "127.0.0.1:0",
         "--http", "127.0.0.1:0"],
        "ready grpc=", env=dict(os.environ, SLUICE_REDIS_TIMEOUT="900ms"))
    address = ready.split("grpc=")[1].split()[0]
    channel = grpc.insecure_channel(address)
    unittest.addModuleCleanup(channel.close)
    check_limit = unary("CheckLimit", pb.CheckLimitRequest, pb.CheckLimitResponse)


def unary(method, request, response):
    return channel.unary_unary(
        "/sluice.v1.RateLimiter/" + method,
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString)


def raw(method="/sluice.v1.RateLimiter/CheckLimit"):
    """A method that sends and returns bytes as they are."""
    return channel.unary_unary(method, request_serializer=None, response_deserializer=None)


def request(endpoint="/pay", user="42", **fields):
    return pb.CheckLimitRequest(
        domain="shop", attributes={"endpoint": endpoint, "user": user}, **fields)


def seconds(duration):
    return duration.seconds + duration.nanos / 1e9


class AnswersTest(unittest.TestCase):
    def test_checks_are_allowed_then_denied_with_retry_after(self):
        first = check_limit(request(user="first", request_id="r1"))
        self.assertEqual(first.decision, pb.DECISION_ALLOWED)
        self.assertEqual(first.source, pb.SOURCE_STORE)
        self.assertEqual(first.request_id, "r1")
        self.assertFalse(first.HasField("retry_after"))
        (limit,) = first.limits
        self.assertEqual((limit.rule, limit.index, limit.algorithm, limit.limit, limit.remaining),
                         ("pay", 0, pb.ALGORITHM_TOKEN_BUCKET, 2, 1))
        self.assertTrue(limit.admitted)

        self.assertEqual(check_limit(request(user="first")).decision, pb.DECISION_ALLOWED)
        denied = check_limit(request(user="first"))
        self.assertEqual(denied.decision, pb.DECISION_DENIED)
        self.assertFalse(denied.limits[0].admitted)
        self.assertEqual(denied.limits[0].remaining, 0)
        # The bucket refills one token an hour. Less than a minute of this hour has passed.
        self.assertLessEqual(seconds(denied.retry_after), 3600)
        self.assertGreater(seconds(denied.retry_after), 3600 - 60)
        self.assertGreaterEqual(denied.decided_at.ToNanoseconds(),
                                first.decided_at.ToNanoseconds())

    def test_cost_beyond_the_burst_is_always_denied(self):
        answer = check_limit(request(user="greedy", cost=3))
        self.assertEqual(answer.decision, pb.DECISION_DENIED)
        self.assertFalse(answer.HasField("retry_after"))
        self.assertEqual(answer.limits[0].remaining, 2)

    def test_absent_cost_is_one_and_cost_zero_takes_nothing(self):
        def remaining(**fields):
            return check_limit(request("/vouchers", **fields)).limits[0].remaining
        self.assertEqual(remaining(mode=pb.MODE_PEEK, cost=4), 10)
        self.assertEqual(remaining(cost=0), 10)
        self.assertEqual(remaining(), 9)
        self.assertEqual(remaining(cost=4), 5)

    def test_users_whose_names_differ_by_nul_have_separate_counters(self):
        for user in ("n", "n\0", "n\0x", "\0"):
            answer = check_limit(request(user=user))
            self.assertEqual(answer.limits[0].remaining, 1, repr(user))

    def test_request_without_a_matching_rule_is_allowed(self):
        for nobody in (request("/elsewhere"), pb.CheckLimitRequest(domain="unknown")):
            answer = check_limit(nobody)
            self.assertEqual(answer.decision, pb.DECISION_ALLOWED)
            self.assertEqual(answer.source, pb.SOURCE_NO_RULE)

    def test_health_is_serving(self):
        # HealthCheckRequest{} and HealthCheckResponse{status: SERVING} on the wire.
        self.assertEqual(raw("/grpc.health.v1.Health/Check")(b""), b"\x08\x01")


class HostileInputTest(unittest.TestCase):
    INVALID = grpc.StatusCode.INVALID_ARGUMENT

    # The request, the documented code (None: any), and a word that the message must contain.
    ROWS = {
        "empty domain": (pb.CheckLimitRequest(), INVALID, "domain"),
        "long domain": (pb.CheckLimitRequest(domain="d" * 256), INVALID, "domain"),
        "10,000 attributes": (
            pb.CheckLimitRequest(domain="shop", attributes={str(i): "x" for i in range(10_000)}),
            INVALID, "attributes"),
        "1 MB value": (request(user="u" * 1_000_000), INVALID, "user"),
        "2 MiB value": (request(user="u" * (1 << 21)), grpc.StatusCode.RESOURCE_EXHAUSTED, "larger"),
        "empty attribute name": (
            pb.CheckLimitRequest(domain="shop", attributes={"": "x"}), INVALID, "attribute"),
        "cost 2^53 + 1": (request(cost=2**53 + 1), INVALID, "cost"),
        "cost 2^63": (request(cost=2**63), INVALID, "cost"),
        "cost 2^64 - 1": (request(cost=2**64 - 1), INVALID, "cost"),
        "unknown mode": (request(mode=99), INVALID, "mode"),
        "negative mode": (request(mode=-1), INVALID, "mode"),
        "negative max_wait": (request(max_wait={"seconds": -1}), INVALID, "max_wait"),
        "max_wait of mixed signs": (
            request(max_wait={"seconds": 1, "nanos": -1}), INVALID, "max_wait"),
        "long request_id": (request(request_id="r" * 256), INVALID, "request_id"),
        "8 MB message": (request(user="u" * (8 << 20)), grpc.StatusCode.RESOURCE_EXHAUSTED, ""),
        # Invalid UTF-8 as the domain, then as an attribute's value. No generated client sends this.
        "domain not UTF-8": (b"\x0a\x02\xc3\x28", INVALID, ""),
        "value not UTF-8": (b"\x0a\x04shop\x12\x0a\x0a\x04user\x12\x02\xff\xfe", INVALID, ""),
        "not a message": (b"\xff" * 64, None, ""),
    }

    def test_each_request_gets_its_documented_code_and_the_server_keeps_running(self):
        for name, (message, code, word) in self.ROWS.items():
            with self.subTest(name):
                sent = message if isinstance(message, bytes) else message.SerializeToString()
                with self.assertRaises(grpc.RpcError) as caught:
                    raw()(sent, timeout=10)
                if code is not None:
                    self.assertEqual(caught.exception.code(), code, caught.exception.details())
                self.assertIn(word, caught.exception.details())
                self.assertIsNone(sluiced.poll(), "sluiced has died")
                alive = check_limit(request("/elsewhere"), timeout=10)
                self.assertEqual(alive.decision, pb.DECISION_ALLOWED)

    def test_largest_allowed_input_is_answered(self):
        attributes = {"a" * 254 + chr(65 + i): "v" * 8192 for i in range(62)}
        attributes.update(endpoint="/pay", user="\0" * 8192)
        answer = check_limit(pb.CheckLimitRequest(
            domain="shop", attributes=attributes, cost=2**53, request_id="r" * 255))
        self.assertEqual(answer.decision, pb.DECISION_DENIED)
        self.assertEqual(answer.limits[0].remaining, 2)

    def test_unknown_method_is_unimplemented(self):
        with self.assertRaises(grpc.RpcError) as caught:
            raw("/sluice.v1.RateLimiter/NoSuchMethod")(b"")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


class ZLastTest(unittest.TestCase):
    """Named so that it runs last."""

    def test_sigterm_ends_sluiced_with_exit_status_0(self):
        sluiced.send_signal(signal.SIGTERM)
        self.assertEqual(sluiced.wait(timeout=20), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
