"""Rules by xDS, as Envoy Gateway serves them to its limiter: environment variables, probes,
certificates and sets of rules. The control plane of the test uses gRPC for Node.

Usage: xds_test.py SLUICE SLUICED PYTHON_PROTO PROTO_DIRECTORY NODE_MODULES
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

SLUICE, SLUICED = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))
PROTOS_AND_MODULES = sys.argv.pop(1), sys.argv.pop(1)

# pylint: disable=wrong-import-position
import running
import control_plane
from authority import Authority
from control_plane import LARGE_SET_TIMEOUT, config
from doors import Grpc, Http, field

TIMEOUT = 60
TOKEN = "of-operators"
HEALTHY = (200, b"\x08\x01", b"\x08\x01")
UNHEALTHY = (500, b"\x08\x02", b"\x08\x02")


def make_plane(*arguments, **named):
    return control_plane.ControlPlane(*PROTOS_AND_MODULES, *arguments, **named)


def start(folder, plane_port, **variables):
    """Starts sluiced as the gateway's pod does, but on free ports. Returns the process, its gRPC
    address and its HTTP address."""
    environment = {
        "PATH": "/usr/bin:/bin", "RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "ratelimit",
        "RUNTIME_IGNOREDOTFILES": "true", "RUNTIME_WATCH_ROOT": "false", "LOG_LEVEL": "info",
        "USE_STATSD": "false", "CONFIG_TYPE": "GRPC_XDS_SOTW",
        "CONFIG_GRPC_XDS_SERVER_URL": f"127.0.0.1:{plane_port}",
        "CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit", "REDIS_SOCKET_TYPE": "unix",
        "REDIS_URL": f"{folder}/redis.sock", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "50ms",
        "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "200ms", "SLUICE_ADMIN_TOKEN": TOKEN, **variables}
    program = folder / "ratelimit"  # under this name, sluiced reads the variables
    if not program.exists():
        program.symlink_to(SLUICED)
    process, ready = running.start(
        [program, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "off",
         "--fleet-share", "1", "--redis-timeout", "900ms"], "ready grpc=", env=environment)
    words = dict(word.split("=", 1) for word in ready.split() if "=" in word)
    return process, words["grpc"], words["http"]


def status_of(http, path):
    try:
        with urllib.request.urlopen(f"http://{http}{path}", timeout=TIMEOUT) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class XdsTest(unittest.TestCase):
    def setUp(self):
        self.folder = running.directory()
        running.start_redis(self.folder)
        self.plane = make_plane()

    def start(self, **variables):
        self.process, self.address, self.http = start(self.folder, self.plane.port, **variables)
        self.envoy = Grpc(self.address)
        return self.plane.next()

    def apply(self, version, *resources):
        self.plane.send(version, *resources)
        return self.plane.next()

    def health(self):
        """The answers to three probes: HTTP, gRPC for the service, gRPC for the whole server."""
        return (status_of(self.http, "/healthcheck"),
                *(self.envoy.call("/grpc.health.v1.Health/Check", field(1, name))
                  for name in (b"ratelimit", b"")))

    def sluice(self, *arguments):
        return subprocess.run([SLUICE, *arguments, "--addr", self.address], text=True,
                              capture_output=True, timeout=TIMEOUT, check=False,
                              env={**os.environ, "SLUICE_TOKEN": TOKEN}).stdout

    def metric(self, name):
        page = running.get(f"http://{self.http}/metrics")
        return float(re.search(rf"^{name} (\S+)$", page, re.M).group(1))

    def admitted(self, domain, times=20):
        return sum(not self.envoy.is_over(domain) for _ in range(times))

    def test_sets_are_added_changed_and_removed(self):
        first = self.start()
        self.assertEqual((first["node"], first["version"], first["nonce"]),
                         ("envoy-ratelimit", "", ""))
        # Without FORCE_START_WITHOUT_INITIAL_CONFIG, the server listens, but is not ready yet.
        self.assertEqual(self.health(), UNHEALTHY)
        self.assertEqual(status_of(self.http, "/healthz"), 200)
        self.assertEqual(self.apply("1")["version"], "1")
        self.assertEqual(self.health(), HEALTHY)
        self.assertEqual(self.admitted("edge"), 20)
        self.assertIsNone(self.apply("2", config("edge", 3))["error"])
        self.assertEqual(self.admitted("edge"), 3)
        self.assertIsNone(self.apply("3", config("edge", 5), config("other", 1))["error"])
        self.assertEqual(self.admitted("other"), 1)
        bad = self.apply("4", config("edge", 9, unit="", name="eg/one"), config("", 9, name="eg/two"))
        self.assertEqual((bad["version"], bad["code"]), ("3", 3))
        self.assertIn('resources[0] "eg/one": descriptors[0].rate_limit.unit: is missing',
                      bad["error"])
        self.assertIn('resources[1] "eg/two": domain: ', bad["error"])
        self.assertTrue(self.envoy.is_over("other"))
        # A set with a lower version is also applied. Resources that it lacks are removed.
        self.assertEqual(self.apply("1", config("edge", 5))["version"], "1")
        self.assertEqual(self.admitted("other"), 20)

    def test_rules_stay_while_the_stream_or_the_control_plane_is_down(self):
        self.start(FORCE_START_WITHOUT_INITIAL_CONFIG="true")
        self.assertEqual(self.health(), HEALTHY)
        self.apply("7", config("edge", 1))
        self.assertEqual(self.admitted("edge"), 1)
        self.plane.tell(end=True)
        again = self.plane.next()
        self.assertEqual((again["version"], again["nonce"]), ("7", ""))
        port = self.plane.port
        self.plane.stop()
        running.wait_until(
            lambda: any("xds: the stream from" in line for line in self.process.heard[-3:]),
            TIMEOUT, "the loss is logged")
        self.assertTrue(self.envoy.is_over("edge"))
        self.plane = make_plane(port)
        self.assertEqual(self.plane.next()["version"], "7")
        self.apply("1", config("edge", 100))
        self.assertFalse(self.envoy.is_over("edge"))

    def test_operators_see_version_age_and_last_refusal(self):
        self.start()
        self.assertIn("# xDS: no set of rules yet; the control plane does not answer\n", self.sluice("rules"))
        self.assertEqual(self.metric("sluice_xds_set_age_seconds"), -1)
        self.apply("7", config("edge", 3), config("other", 3))
        seen = r"xDS: version 7 with 2 resources, accepted \S+ \S+ ago\n"
        self.assertRegex(self.sluice("rules"), "^# " + seen + "domain: edge\nrules:\n")
        self.assertRegex(self.sluice("explain", "edge", "descriptor=user=a"), "  " + seen + "$")
        fingerprint = self.metric("sluice_rules_fingerprint")
        # Another control plane may send the same resources in another order, with another version.
        self.apply("1", config("other", 3), config("edge", 3))
        self.assertEqual(self.metric("sluice_rules_fingerprint"), fingerprint)
        self.apply("2", config("edge", 3, unit=""), config("edge", 3))
        self.assertEqual(self.metric("sluice_rules_fingerprint"), fingerprint)
        self.assertEqual(self.metric("sluice_xds_last_set_refused"), 1)
        refused = ("version 2: resources[0]: descriptors[0].rate_limit.unit: is missing; allowed are "
                   "second, minute, hour, day, month, year, week (and 1 more)")
        for command in (("rules",), ("explain", "edge")):
            text = self.sluice(*command)
            self.assertIn("xDS: version 1 with 2 resources, ", text)
            self.assertIn(f"xDS: refused {refused}\n", text)
        page = urllib.request.Request(f"http://{self.http}/rules",
                                      headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(page, timeout=TIMEOUT) as answer:
            xds = json.load(answer)["xds"]
        self.assertRegex(xds.pop("age"), r"^[0-9.]+s$")
        self.assertEqual(xds, {"connected": True, "version": "1", "resources": "2", "refused": "1",
                               "lastRefusal": refused})
        self.apply("3")
        self.assertNotEqual(self.metric("sluice_rules_fingerprint"), fingerprint)
        self.assertEqual(self.metric("sluice_xds_last_set_refused"), 0)
        self.assertIn("no rules are in force", self.sluice("rules"))

    def test_calls_of_the_ai_gateway_and_reservations_share_a_budget_of_tokens(self):
        self.start()
        self.apply("1", config("models", 1000))

        def counts(tokens):
            return self.envoy.is_over("models", value=b"eve", hits=tokens)

        # Both calls are admitted, since nothing is counted before they end.
        self.assertEqual([counts(0), counts(0)], [False, False])
        self.assertEqual([counts(800), counts(800)], [False, True])
        self.assertTrue(counts(0))

        def reserve(cost, **more):
            check = {"domain": "models", "attributes": {"rule": "user", "descriptor": "user=bob"},
                     "cost": cost, **more}
            status, text = Http(self.http).ask("POST", "/v1/check", check)
            self.assertEqual(status, 200)
            return json.loads(text)

        first = reserve(800)
        self.assertEqual([it["decision"] for it in (first, reserve(800))],
                         ["DECISION_ALLOWED", "DECISION_DENIED"])
        reserve(500, mode="MODE_REFUND", chargedAt=first["decidedAt"])
        self.assertEqual(reserve(700)["decision"], "DECISION_ALLOWED")
        # The reservations share one budget with the calls that Envoy counts.
        self.assertFalse(self.envoy.is_over("models", value=b"bob", hits=0))
        self.assertTrue(self.envoy.is_over("models", value=b"bob"))

    def test_metrics_for_prometheus_have_envoys_names(self):
        self.start(USE_PROMETHEUS="true", PROMETHEUS_ADDR="127.0.0.1:0", PROMETHEUS_PATH="/stats")
        at = next(re.search(r"metrics: at (\S+), too", line) for line in self.process.heard
                  if "metrics: at" in line).group(1)
        self.apply("1", config("edge", 3))
        self.assertEqual(self.admitted("edge"), 3)
        self.apply("2", config("edge", 3, unit=""))
        page = running.get(f"http://{at}")
        for line in ('rate_limit_total_hits{domain="edge",key1="user"} 20',
                     'total_requests{grpc_method="ShouldRateLimit"} 20',
                     'config_load_success 2', 'config_load_error 1'):
            self.assertIn(f"\nratelimit_service_{line}\n", page)
        self.assertIn("\nsluice_xds_refused_total 1\n", page)
        self.assertEqual(status_of(at.split("/")[0], "/stats"), 200)
        self.assertEqual(status_of(at.split("/")[0], "/json"), 404)
        self.assertEqual(self.metric("ratelimit_service_config_load_error"), 1)

    def test_server_is_ready_only_while_a_rule_is_loaded(self):
        self.start(HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED="true")
        self.assertEqual(self.health(), UNHEALTHY)
        for version, resources, health in (("1", (), UNHEALTHY), ("2", (config("edge", 1),), HEALTHY),
                                           ("3", (config("", 1),), HEALTHY), ("4", (), UNHEALTHY)):
            self.apply(version, *resources)
            self.assertEqual(self.health(), health, version)

    def test_sigterm_before_the_first_set_ends_the_server(self):
        self.start()
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(TIMEOUT), 0)

    def test_50000_descriptors_are_in_force(self):
        self.start()
        began = time.monotonic()
        self.plane.tell(large={"version": "1", "domains": 5000, "descriptors": 10})
        answer = self.plane.next(LARGE_SET_TIMEOUT)
        self.assertEqual((answer["version"], answer["error"]), ("1", None))
        print(f"5,000 resources with 50,000 descriptors: {time.monotonic() - began:.2f} s",
              file=sys.stderr)
        self.assertFalse(self.envoy.is_over("domain-4999", value=b"user-0"))
        self.assertTrue(self.envoy.is_over("domain-4999", value=b"user-0"))


class TlsTest(unittest.TestCase):
    """TLS as in the gateway: it has its own authority, and each client needs a certificate."""

    def test_certificates_are_read_again_for_each_connection(self):
        folder = running.directory()
        running.start_redis(folder)
        authority = Authority(folder)
        authority.issue("plane", "IP:127.0.0.1")
        authority.issue("sluice", "DNS:sluice")
        tls = (authority.ca, folder / "plane.pem", folder / "plane.key")
        plane = make_plane(tls=tls)
        process, _, _ = start(
            folder, plane.port, CONFIG_GRPC_XDS_SERVER_USE_TLS="true",
            CONFIG_GRPC_XDS_SERVER_TLS_CACERT=str(folder / "used.pem"),
            CONFIG_GRPC_XDS_CLIENT_TLS_CERT=str(folder / "sluice.pem"),
            CONFIG_GRPC_XDS_CLIENT_TLS_KEY=str(folder / "sluice.key"))
        # The authority's file appears later, as can happen with a mounted secret.
        running.wait_until(lambda: any("xds: " in line and "used.pem" in line
                                       for line in process.heard), TIMEOUT, "the missing file")
        (folder / "used.pem").write_bytes(authority.ca.read_bytes())
        self.assertEqual(plane.next()["node"], "envoy-ratelimit")
        plane.send("1", config("edge", 1))
        self.assertEqual(plane.next()["version"], "1")
        # Another authority takes over; both sides get new certificates.
        port = plane.port
        plane.stop()
        other = Authority(folder, "other")
        other.issue("plane", "IP:127.0.0.1")
        other.issue("sluice", "DNS:sluice")
        (folder / "used.pem").write_bytes(other.ca.read_bytes())
        plane = make_plane(port, (other.ca, folder / "plane.pem", folder / "plane.key"))
        self.assertEqual(plane.next()["version"], "1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
