"""Envoy's rate limit service: hostile requests, health checks, TLS, and a Redis that stops.

Usage: envoy_test.py SLUICED PYTHON_PROTO
"""

import signal
import sys
import unittest

SLUICED = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))

# pylint: disable=wrong-import-position
import grpc
import running
from authority import Authority
from doors import ENVOY, Grpc, Http, descriptor_of, envoy_request, field

LIMIT = 10
RULES = f"""
domain: edge
descriptors: [{{key: user, rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}}}]
"""


def start():
    """Starts a Redis and a sluiced. Returns a caller of the sluiced, and both processes."""
    folder = running.directory()
    rules = folder / "rules"
    rules.mkdir()
    (rules / "edge.yaml").write_text(RULES, encoding="utf-8")
    redis, url = running.start_redis(folder)
    sluiced, ready = running.start(
        [SLUICED, "--envoy-rules", rules, "--redis", url, "--grpc", "127.0.0.1:0", "--http",
         "127.0.0.1:0", "--admin", "off", "--fleet-share", "1", "--redis-timeout", "900ms"],
        "ready grpc=")
    envoy = Grpc(ready.split("grpc=")[1].split()[0])
    return envoy, redis, sluiced


class HostileRequestsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.envoy, _, _ = start()

    def ask(self, request):
        return self.envoy.call(ENVOY + "ShouldRateLimit", request)

    def test_no_hostile_request_ends_the_server_or_gives_hits_back(self):
        for _ in range(LIMIT):
            self.assertFalse(self.envoy.is_over("edge"))
        self.assertTrue(self.envoy.is_over("edge"))
        rows = {
            "an unknown unit": envoy_request("edge", unit=99),
            "unit 0": envoy_request("edge", unit=0),
            "a unit beyond 32 bits": envoy_request("edge", unit=1 << 40),
            "2^63 hits": envoy_request("edge", hits=1 << 63),
            "2^64 - 1 hits": envoy_request("edge", hits=(1 << 64) - 1),
            "2^63 hits given back": envoy_request("edge", hits=1 << 63, negative=True),
            "a value that is not UTF-8": envoy_request("edge", value=b"\xc3\x28"),
            "a domain that is not UTF-8": field(1, b"\xff") + field(2, descriptor_of()),
            "a message cut short": envoy_request("edge")[:-1],
            "bytes that are not a message": b"\xff" * 20,
        }
        for name, request in rows.items():
            self.assertEqual(self.ask(request), "INVALID_ARGUMENT", name)
            self.assertTrue(self.envoy.is_over("edge"), name)
        for hits in (1 << 52, (1 << 53) + 1, (1 << 63) - 1):
            self.assertTrue(self.envoy.is_over("edge", value=b"many", hits=hits))
            self.assertTrue(self.envoy.is_over("edge", value=b"many"))

    def test_large_requests_are_answered_or_refused(self):
        self.assertFalse(self.envoy.is_over("edge", value=b"v" * 1_000_000))
        self.assertEqual(self.envoy.should_rate_limit("edge", value=b"v" * (1 << 20)),
                         "RESOURCE_EXHAUSTED")
        many = field(1, b"edge") + 100 * field(2, descriptor_of(b"crowd"))
        self.assertEqual(self.ask(many)[:2], b"\x08\x02")
        for more in (1, 9_900):
            more_descriptors = more * field(2, descriptor_of(b"crowd"))
            self.assertEqual(self.ask(many + more_descriptors), "INVALID_ARGUMENT")
        self.assertTrue(self.envoy.is_over("edge", value=b"crowd"))

    def test_health_is_serving_for_the_name_that_envoy_uses(self):
        for name in (b"", b"ratelimit"):
            health = self.envoy.call("/grpc.health.v1.Health/Check", name and field(1, name))
            self.assertEqual(health, b"\x08\x01")


class VariablesTest(unittest.TestCase):
    def test_tls_is_only_for_grpc(self):
        folder = running.directory()
        authority = Authority(folder)
        authority.issue("server", "DNS:localhost,IP:127.0.0.1")
        (folder / "config").mkdir()
        (folder / "config/edge.yaml").write_text(RULES, encoding="utf-8")
        _, ready = running.start(
            [SLUICED, "--envoy-env", "--admin", "off"], "ready grpc=",
            env={"RUNTIME_ROOT": folder, "GRPC_HOST": "127.0.0.1", "GRPC_PORT": "0",
                 "HOST": "127.0.0.1", "PORT": "0", "GRPC_SERVER_USE_TLS": "true",
                 "GRPC_SERVER_TLS_CERT": folder / "server.pem",
                 "GRPC_SERVER_TLS_KEY": folder / "server.key"})
        address, http = (ready.split(f"{name}=")[1].split()[0] for name in ("grpc", "http"))
        known = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        self.assertFalse(Grpc(address, credentials=known).is_over("edge"))
        self.assertEqual(Grpc(address).should_rate_limit("edge"), "UNAVAILABLE")
        self.assertEqual(Http(http).ask("GET", "/healthcheck")[0], 200)


class StoppedRedisTest(unittest.TestCase):
    def test_the_rest_of_a_limit_is_admitted_and_later_charged_to_redis(self):
        envoy, redis, sluiced = start()
        answers = [envoy.is_over("edge") for _ in range(4)]
        redis.send_signal(signal.SIGSTOP)
        answers += [envoy.is_over("edge") for _ in range(3 * LIMIT)]
        self.assertEqual(answers, LIMIT * [False] + (2 * LIMIT + 4) * [True])
        redis.send_signal(signal.SIGCONT)

        def has_settled():
            answers.append(envoy.is_over("edge"))
            return all(answers[-LIMIT:])

        running.wait_until(lambda: any("breaker closed" in it for it in sluiced.heard), 30,
                           "Redis decides")
        running.wait_until(has_settled, 30, "Redis has counted what was admitted without it")
        self.assertLessEqual(answers.count(False), 2 * LIMIT, "docs/outages.md")


if __name__ == "__main__":
    unittest.main()
