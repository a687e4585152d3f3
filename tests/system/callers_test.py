"""The permissions of callers at every entry point, with and without the setting `callers`.

Usage: callers_test.py SLUICED PYTHON_PROTO
"""

import pathlib
import re
import subprocess
import sys
import unittest

SLUICED = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench/door"))

# pylint: disable=wrong-import-position
import http2
import running
from doors import ADMIN_CALLS, LEASE_CALLS, LEASE_PATHS, LIMITER, Grpc, Http, api, check_of

RULES = """
domain: {domain}
rules:
  - name: {domain}-pay
    match: {{endpoint: /pay}}
    limits: [{{algorithm: fixed_window, limit: 1000, window: 1d}}]
  - name: {domain}-slots
    match: {{endpoint: /slots}}
    limits: [{{algorithm: concurrency, limit: 1000, ttl: 1h}}]
"""
ENVOY_RULES = """
domain: {domain}
descriptors: [{{key: user, rate_limit: {{unit: day, requests_per_unit: 1000}}}}]
"""
SETTINGS = """
callers:
  checkout: {{token_file: {folder}/checkout, domains: [shop], may: [consume, peek]}}
  billing: {{token_file: {folder}/billing, domains: [shop, bank]}}
  bank: {{token_file: {folder}/bank, domains: bank}}
  gateway: {{token_file: {folder}/gateway, domains: [edge], may: [consume, peek]}}
  everywhere: {{token_file: {folder}/everywhere, domains: "*"}}
  prometheus: {{token_file: {folder}/prometheus, may: [metrics]}}
admin: {{token_file: {folder}/admin}}
"""
PROXY = """
pid nginx.pid; error_log stderr warn; daemon off; events {{}}
http {{
  access_log off; {temporary}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{http}; }} }}
}}
"""


def start(settings):
    folder = running.directory()
    rules = folder / "rules"
    rules.mkdir()
    for domain in ("shop", "bank"):
        (rules / f"{domain}.yaml").write_text(RULES.format(domain=domain), encoding="utf-8")
    envoy_rules = folder / "envoy"
    envoy_rules.mkdir()
    for domain in ("edge", "inner"):
        (envoy_rules / f"{domain}.yaml").write_text(ENVOY_RULES.format(domain=domain),
                                                    encoding="utf-8")
    for name in ("checkout", "billing", "bank", "gateway", "everywhere", "prometheus",
                 "admin"):
        (folder / name).write_text(f"token-of-{name}\n", encoding="utf-8")
    (folder / "settings.yaml").write_text(settings.format(folder=folder),
                                          encoding="utf-8")
    process, ready = running.start(
        [SLUICED, "--config", folder / "settings.yaml", "--rules", rules,
         "--envoy-rules", envoy_rules, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", f"unix:{folder}/admin.sock"], "ready grpc=")
    process.grpc, process.http = (ready.split(f"{door}=")[1].split()[0]
                                  for door in ("grpc", "http"))
    return process, folder


def start_proxy(http):
    """Starts an nginx on this machine that forwards all requests to `http`. Returns its address."""
    folder = running.directory()
    port = running.free_port()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    (folder / "nginx.conf").write_text(PROXY.format(
        port=port, http=http,
        temporary="".join(f"{kind}_temp_path {folder}/{kind}; " for kind in kinds)),
        encoding="utf-8")
    process = subprocess.Popen(
        ["/usr/sbin/nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"],
        stdin=subprocess.DEVNULL)
    unittest.addModuleCleanup(process.wait)
    unittest.addModuleCleanup(process.terminate)
    running.wait_until(lambda: running.listens(port), 20, "nginx listens")
    return f"127.0.0.1:{port}"


class DoorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sluiced, cls.folder = start(SETTINGS)
        cls.proxy = start_proxy(cls.sluiced.http)

    def grpc(self, name=None):
        return Grpc(self.sluiced.grpc, name and f"token-of-{name}")

    def https(self, name=None):
        """Two clients: one connects directly, the other through a proxy on this machine."""
        token = name and f"token-of-{name}"
        return Http(self.sluiced.http, token), Http(self.proxy, token)

    def test_unknown_callers_can_do_and_see_nothing(self):
        for caller in (self.grpc(), self.grpc("nobody")):
            for door, answer in caller.doors().items():
                self.assertEqual(answer, "UNAUTHENTICATED", door)
            for domain in ("edge", "unknown", ""):
                self.assertEqual(caller.should_rate_limit(domain), "UNAUTHENTICATED")
        for caller in (*self.https(), *self.https("nobody")):
            caller.headers["X-Forwarded-For"] = "127.0.0.1"
            for door, (status, text) in caller.doors().items():
                slowed = (429,) if door in ("/rules", "/metrics") else ()
                self.assertIn(status, (401, *slowed), door)
                self.assertNotIn("shop", text, door)
            self.assertEqual(caller.should_rate_limit("edge"), 401)
            self.assertEqual(caller.should_rate_limit("unknown"), 401)

    def test_unknown_callers_are_refused_before_their_json_is_read(self):
        for path in ("/v1/check", "/v1/checks", *LEASE_PATHS, "/json"):
            for caller in self.https("nobody"):
                self.assertEqual(caller.ask("POST", path, "no json")[0], 401, path)
            self.assertEqual(self.https("everywhere")[0].ask("POST", path, "no json")[0], 400, path)

    def test_probes_are_answered_for_everybody(self):
        health = self.grpc().call("/grpc.health.v1.Health/Check", b"")
        self.assertEqual(health, b"\x08\x01")
        for caller in self.https():
            self.assertEqual(caller.ask("GET", "/healthz"), (200, "ok\n"))
            self.assertEqual(caller.ask("GET", "/readyz"), (200, "ready\n"))
            self.assertEqual(caller.ask("GET", "/healthcheck"), (200, "OK"))

    def test_a_caller_checks_only_in_its_domains(self):
        caller = self.grpc("checkout")
        doors = caller.doors()
        for door in ("CheckLimit", "CheckLimits", "reflection v1", "reflection v1alpha"):
            self.assertNotIsInstance(doors.pop(door), str, door)
        self.assertEqual(len(doors.pop("CheckLimitStream")), 1)
        for door in LEASE_CALLS:
            self.assertEqual(doors.pop(door), "PERMISSION_DENIED", door)
        self.assertEqual(set(doors.values()), {"UNAUTHENTICATED"}, "entry points of operators")
        self.assertEqual(caller.check("bank"), "PERMISSION_DENIED")
        self.assertEqual(caller.check("unknown"), "PERMISSION_DENIED", "no such domain")
        for over_http in self.https("checkout"):
            statuses = {door: answer[0] for door, answer in over_http.doors().items()}
            self.assertEqual(statuses, {
                "/v1/check": 200, "/v1/checks": 200, "/v1/auth": 204,
                **dict.fromkeys(LEASE_PATHS, 403), "/rules": 401, "/metrics": 403})
            self.assertEqual(over_http.ask("GET", "/v1/auth?domain=bank")[0], 401,
                             "not 403, which proxies take for a denial")

    def test_envoy_checks_only_in_its_domains_and_modes(self):
        gateway, checkout, everywhere = map(self.grpc, ("gateway", "checkout", "everywhere"))
        for hits in (None, 0, 5):
            self.assertIsInstance(gateway.should_rate_limit("edge", hits=hits), bytes)
        self.assertEqual(gateway.should_rate_limit("edge", hits=1, negative=True), "PERMISSION_DENIED")
        self.assertIsInstance(everywhere.should_rate_limit("edge", hits=1, negative=True), bytes)
        for domain in ("inner", "shop", "unknown", "*"):
            self.assertEqual(gateway.should_rate_limit(domain), "PERMISSION_DENIED", domain)
            self.assertIsInstance(everywhere.should_rate_limit(domain), bytes)
        self.assertEqual(checkout.should_rate_limit("edge"), "PERMISSION_DENIED")
        for caller in self.https("gateway"):
            self.assertEqual(caller.should_rate_limit("edge"), 200)
            self.assertEqual(caller.should_rate_limit("edge", isNegativeHits=True), 403)
            self.assertEqual(caller.should_rate_limit("inner"), 403)
        for caller in self.https("gateway"):
            self.assertEqual(caller.should_rate_limit("edge", hitsAddend="2000"), 429)

    def test_modes_and_leases_need_their_rights(self):
        checkout, billing = self.grpc("checkout"), self.grpc("billing")
        for mode in (api.MODE_CHARGE, api.MODE_REFUND):
            self.assertEqual(checkout.check(mode=mode), "PERMISSION_DENIED")
            self.assertEqual(billing.check(mode=mode).decision, api.DECISION_ALLOWED)
        self.assertEqual(checkout.check(mode=api.MODE_PEEK).decision, api.DECISION_ALLOWED)
        self.assertEqual(checkout.check(endpoint="/slots"), "PERMISSION_DENIED", "the check takes a lease")
        lease = billing.check(endpoint="/slots").lease.id
        self.assertTrue(lease)
        renewal = api.RenewLeaseRequest(lease_id=lease).SerializeToString()
        self.assertEqual(self.grpc("bank").call(LIMITER + "RenewLease", renewal),
                         "PERMISSION_DENIED", "a lease of another domain")
        self.assertIsInstance(billing.call(LIMITER + "RenewLease", renewal), bytes)

    def test_each_check_of_a_batch_is_authorized_separately(self):
        batch = api.CheckLimitsRequest(checks=[
            check_of(), check_of("bank"), check_of(mode=api.MODE_CHARGE), check_of()])
        caller = self.grpc("checkout")
        answers = [caller.call(LIMITER + "CheckLimits", batch.SerializeToString())]
        answers += caller.stream(LIMITER + "CheckLimitStream", batch.SerializeToString())
        for answer in answers:
            results = api.CheckLimitsResponse.FromString(answer).results
            self.assertEqual(sorted(result.error.code for result in results), [0, 0, 7, 7])

    def test_scrapers_read_metrics_and_operators_read_rules(self):
        for scraper in self.https("prometheus"):
            status, text = scraper.ask("GET", "/metrics")
            self.assertEqual(status, 200)
            self.assertIn('sluice_callers_refused_total{reason="unknown"}', text)
            self.assertEqual(scraper.ask("POST", "/v1/check", {"domain": "shop"})[0], 403)
        for operator in self.https("admin"):
            self.assertEqual(operator.ask("GET", "/metrics")[0], 200)
            status, text = operator.ask("GET", "/rules")
            self.assertEqual(status, 200)
            self.assertIn('"rule":"shop-pay"', text)

    def test_unknown_callers_cannot_exhaust_the_limit_of_open_calls(self):
        """One address begins 60,000 calls and completes none of them."""
        head = http2.request_headers(LIMITER.encode() + b"CheckLimit")
        calls = b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head)
                         for stream in range(1, 2001, 2))
        held = [http2.connect(self.sluiced.grpc) for _ in range(60)]
        for connection in held:
            connection.sendall(calls + http2.frame(http2.PING, 0, 0, bytes(8)))
            http2.Reader(connection).wait_for(
                (1, lambda kind, flags: kind == http2.PING and flags == http2.ACK))
        page = self.https("prometheus")[0].ask("GET", "/metrics")[1]
        refused = re.search(r'sluice_grpc_refused_total{reason="calls"} (\d+)', page)
        self.assertGreater(int(refused[1]), 9_000)
        self.assertEqual(self.grpc("checkout").check().decision, api.DECISION_ALLOWED)
        for connection in held:
            connection.close()

    def test_tokens_are_replaced_while_the_server_runs(self):
        def decides(token):
            return not isinstance(Grpc(self.sluiced.grpc, token).check("bank"), str)

        file = self.folder / "bank"
        file.write_text("token-of-bank\nits-next\n", encoding="utf-8")
        running.wait_until(lambda: decides("its-next"), 30, "the next token is valid")
        self.assertTrue(decides("token-of-bank"), "both tokens are valid while the file has both")
        file.write_text("its-next\n", encoding="utf-8")
        running.wait_until(lambda: not decides("token-of-bank"), 30, "the first token is invalid")
        file.write_text("\n", encoding="utf-8")
        running.wait_until(lambda: any("stay in use" in it for it in self.sluiced.heard), 30,
                           "the log reports the empty file")
        self.assertTrue(decides("its-next"))
        self.assertNotIn("its-next", "".join(self.sluiced.heard))
        file.write_text("token-of-bank\n", encoding="utf-8")
        running.wait_until(lambda: decides("token-of-bank"), 30, "the first token is valid again")


class WrongAdminTokensTest(unittest.TestCase):
    def test_a_slowed_address_is_admitted_again_soon(self):
        sluiced, _ = start(SETTINGS)
        guesser, scraper, operator = (Http(sluiced.http, f"token-of-{name}")
                                      for name in ("nobody", "prometheus", "admin"))
        statuses = [guesser.ask("GET", "/metrics")[0] for _ in range(60)]
        self.assertEqual(statuses[:10], 10 * [401])
        self.assertIn(429, statuses)
        self.assertEqual(scraper.ask("GET", "/metrics")[0], 200, "callers are not slowed")
        running.wait_until(lambda: operator.ask("GET", "/metrics")[0] == 200, 30,
                           "the operator is admitted")
        page = scraper.ask("GET", "/metrics")[1]
        wrong = re.search(r'sluice_admin_refused_total{reason="wrong_token"} (\d+)', page)
        self.assertLess(int(wrong[1]), 40, "tries of a slowed address and the right token count")


class WithoutCallersTest(unittest.TestCase):
    def test_without_callers_only_admin_entry_points_are_refused(self):
        sluiced, _ = start("{{}}")
        answers = Grpc(sluiced.grpc).doors()
        for door in (*ADMIN_CALLS, "Watch"):
            self.assertEqual(answers.pop(door), "PERMISSION_DENIED", door)
        for door in LEASE_CALLS:
            self.assertEqual(answers.pop(door), "INVALID_ARGUMENT", door)
        for door, answer in answers.items():
            self.assertNotIsInstance(answer, str, door)
        self.assertIsInstance(Grpc(sluiced.grpc).should_rate_limit("edge"), bytes)
        for address in (sluiced.http, start_proxy(sluiced.http)):
            self.assertEqual(Http(address).should_rate_limit("edge"), 200)
            for mistake in ({"domain": ""}, {"domain": "edge"}, {"domain": 7, "x": 1}, "text",
                            {"domain": "edge", "descriptors": [{"limit": {"unit": 9}}]}):
                status, text = Http(address).ask("POST", "/json", mistake)
                self.assertEqual(status, 400, text)
            statuses = {door: answer[0] for door, answer in Http(address).doors().items()}
            self.assertEqual(statuses, {
                "/v1/check": 200, "/v1/checks": 200, "/v1/auth": 204,
                **dict.fromkeys(LEASE_PATHS, 400), "/rules": 403, "/metrics": 200})


if __name__ == "__main__":
    unittest.main()
