"""Certificates and secrets of a running sluiced. Every entry point has the same certificate.
Callers are identified by their own certificates. sluiced's certificate and Redis' password are
replaced without a restart.

Usage: certificates_test.py SLUICED PYTHON_PROTO
"""

import concurrent.futures
import http.client
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

SLUICED = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))

# pylint: disable=wrong-import-position
import grpc
import running
from authority import Authority
from doors import ADMIN, ADMIN_CALLS, TIMEOUT, Grpc, Http, api

RULES = """
domain: shop
rules:
  - name: pay
    match: {endpoint: /pay}
    limits: [{algorithm: fixed_window, limit: 1000000, window: 1d}]
"""
SETTINGS = """
tls: {{certificate: {folder}/server.pem, key: {folder}/server.key, client_ca: {folder}/ca.pem}}
admin: {{listen: "127.0.0.1:0", identities: "dns:ops.example,dns:oncall.example"}}
callers:
  checkout: {{identities: ["uri:spiffe://example/checkout"], domains: [shop]}}
"""


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = running.directory()
        cls.authority = Authority(cls.folder)
        cls.authority.issue("server", "DNS:localhost,IP:127.0.0.1")
        cls.authority.issue("checkout", "URI:spiffe://example/checkout")
        cls.authority.issue("ops", "DNS:ops.example")
        cls.authority.issue("stranger", "DNS:stranger.example")
        cls.authority.issue("checkout-name", "DNS:spiffe://example/checkout")
        cls.authority.issue("ops-uri", "URI:ops.example")
        cls.authority.issue("expired", "URI:spiffe://example/checkout", days=-1)
        forger = running.directory()
        Authority(forger).issue("forged", "URI:spiffe://example/checkout")
        for suffix in ("pem", "key"):
            os.replace(forger / f"forged.{suffix}", cls.folder / f"forged.{suffix}")
        rules = running.directory()
        (rules / "shop.yaml").write_text(RULES, encoding="utf-8")
        (cls.folder / "settings.yaml").write_text(
            SETTINGS.format(folder=cls.folder), encoding="utf-8")
        cls.sluiced, ready = running.start(
            [SLUICED, "--config", cls.folder / "settings.yaml", "--rules", rules,
             "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], "ready grpc=")
        cls.grpc, cls.http, cls.admin = (ready.split(f"{door}=")[1].split()[0]
                                         for door in ("grpc", "http", "admin"))

    def read(self, name):
        return (self.folder / name).read_bytes()

    def over_grpc(self, name, address=None):
        pair = (self.read(f"{name}.key"), self.read(f"{name}.pem")) if name else (None, None)
        return Grpc(address or self.grpc,
                    credentials=grpc.ssl_channel_credentials(self.read("ca.pem"), *pair))

    def context(self, name):
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if name:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    def over_http(self, name):
        return Http(self.http, context=self.context(name))

    def test_a_caller_is_identified_by_its_certificate(self):
        self.assertEqual(self.over_grpc("checkout").check().decision, api.DECISION_ALLOWED)
        self.assertEqual(self.over_http("checkout").ask("GET", "/v1/auth?domain=shop")[0], 204)
        self.assertEqual(self.over_grpc("checkout").check("bank"), "PERMISSION_DENIED")

    def test_a_certificate_with_another_name_has_no_rights(self):
        doors = self.over_grpc("stranger").doors()
        for name in (*ADMIN_CALLS, "Watch"):
            self.assertEqual(doors.pop(name), "PERMISSION_DENIED", name)
        self.assertEqual(set(doors.values()), {"UNAUTHENTICATED"})
        statuses = {door: answer[0] for door, answer in self.over_http("stranger").doors().items()}
        self.assertEqual(statuses.pop("/rules"), 403)
        self.assertEqual(set(statuses.values()), {401})

    def test_a_name_of_another_type_does_not_match(self):
        self.assertEqual(self.over_grpc("checkout-name").check(), "UNAUTHENTICATED")
        self.assertEqual(self.over_http("checkout-name").ask("GET", "/v1/auth?domain=shop")[0], 401)
        self.assertEqual(self.over_grpc("ops-uri").call(ADMIN + "ListRules", b""),
                         "PERMISSION_DENIED")
        self.assertEqual(self.over_http("ops-uri").ask("GET", "/rules")[0], 403)

    def test_without_a_valid_certificate_the_connection_is_refused(self):
        for name in (None, "expired", "forged"):
            self.assertEqual(self.over_grpc(name).check(), "UNAVAILABLE", name)
            self.assertEqual(self.over_http(name).ask("GET", "/healthz")[0], "refused", name)
        self.assertEqual(Http(self.http).ask("GET", "/healthz")[0], "refused", "without TLS")

    def test_old_tls_and_other_protocols_are_refused(self):
        old = self.context("checkout")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        self.assertEqual(Http(self.http, context=old).ask("GET", "/healthz")[0], "refused")
        other = self.context("checkout")
        other.set_alpn_protocols(["h2"])
        self.assertEqual(Http(self.http, context=other).ask("GET", "/healthz")[0], "refused")
        http1 = self.context("checkout")
        http1.set_alpn_protocols(["h2", "http/1.1"])
        self.assertEqual(Http(self.http, context=http1).ask("GET", "/healthz")[0], 200)

    def test_operators_are_identified_by_their_certificates(self):
        for address in (self.grpc, self.admin):
            self.assertIsInstance(self.over_grpc("ops", address).call(ADMIN + "ListRules", b""),
                                  bytes)
            self.assertEqual(self.over_grpc("checkout", address).call(ADMIN + "ListRules", b""),
                             "PERMISSION_DENIED")
        status, text = self.over_http("ops").ask("GET", "/rules")
        self.assertEqual(status, 200)
        self.assertIn('"rule":"pay"', text)
        self.assertEqual(self.over_http("checkout").ask("GET", "/rules")[0], 403)

    def s_client(self, *flags):
        """openssl's client, connected to the HTTP port."""
        client, _ = running.start(
            ["openssl", "s_client", "-connect", self.http, "-CAfile", self.folder / "ca.pem",
             "-cert", self.folder / "checkout.pem", "-key", self.folder / "checkout.key",
             "-verify_return_error", *flags], "Verify return code: 0", stdin=subprocess.PIPE)
        self.addCleanup(client.stdin.close)
        return client

    def assert_answered(self, client):
        print("GET /healthz HTTP/1.1\r\nHost: sluice\r\n\r", file=client.stdin, flush=True)
        running.wait_until(lambda: "HTTP/1.1 200" in "".join(client.heard), 20, "an answer")

    def test_openssls_client_works_in_each_version_and_with_short_records(self):
        for flags in (["-tls1_2"], ["-tls1_3"], ["-maxfraglen", "512"],
                      ["-tls1_2", "-maxfraglen", "512"]):
            with self.subTest(flags=flags):
                self.assert_answered(self.s_client(*flags))

    def test_openssls_client_may_update_its_keys(self):
        client = self.s_client("-tls1_3")
        for number, command in enumerate("kKkK", start=1):
            print(command, file=client.stdin, flush=True)
            running.wait_until(lambda n=number: "".join(client.heard).count("KEYUPDATE") == n, 20,
                               "the command is executed")
        self.assert_answered(client)

    def test_clients_that_disconnect_do_not_affect_others(self):
        client = self.s_client()
        for _ in range(3):
            self.s_client().kill()
        self.assert_answered(client)

    def shown(self, address, alpn=None):
        """The serial number of the certificate that the server sends on a new connection."""
        context = self.context("checkout")
        context.set_alpn_protocols([alpn] if alpn else ["http/1.1"])
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=TIMEOUT) as tcp:
            with context.wrap_socket(tcp, server_hostname=host) as connection:
                return connection.getpeercert()["serialNumber"]

    def test_a_renewed_certificate_is_used_and_no_call_is_lost(self):
        with concurrent.futures.ThreadPoolExecutor(2) as load:
            renewed = threading.Event()
            callers = [load.submit(self.calls_until, renewed) for _ in range(2)]
            try:
                self.renew()
            finally:
                renewed.set()
            for caller in callers:
                self.assertGreater(caller.result(), 0)

    def calls_until(self, end):
        """Makes calls until `end` is set, each on a new connection. Returns their number."""
        calls = 0
        while not end.is_set():
            answer = self.over_http("checkout").ask("GET", "/v1/auth?domain=shop")
            self.assertEqual(answer[0], 204, answer)
            calls += 1
        return calls

    def renew(self):
        kept = self.over_grpc("checkout")
        host, port = self.http.rsplit(":", 1)
        kept_http = http.client.HTTPSConnection(host, int(port), timeout=TIMEOUT,
                                                context=self.context("checkout"))
        first = [self.shown(self.grpc, "h2"), self.shown(self.http)]

        def all_new():
            self.assertEqual(kept.check().decision, api.DECISION_ALLOWED)
            kept_http.request("GET", "/v1/auth?domain=shop")
            answer = kept_http.getresponse()
            self.assertEqual((answer.status, answer.read()), (204, b""))
            now = [self.shown(self.grpc, "h2"), self.shown(self.http)]
            return now[0] == now[1] and now[0] not in first

        self.assertEqual(first[0], first[1], "one certificate for both")
        self.authority.issue("server", "DNS:localhost,IP:127.0.0.1")
        began = time.monotonic()
        running.wait_until(all_new, 40, "the renewed certificate is shown")
        print(f"the renewed certificate was used after {time.monotonic() - began:.1f} s")
        told = "".join(self.sluiced.heard)
        self.assertEqual(told.count("server.pem have changed"), 1, told)
        kept_http.close()


class RedisPasswordTest(unittest.TestCase):
    def test_a_password_is_replaced_without_a_restart_and_never_logged(self):
        folder = running.directory()
        running.start(
            ["/usr/bin/redis-server", "--port", "0", "--unixsocket", folder / "redis.sock",
             "--save", "", "--dir", folder, "--requirepass", "first-secret"],
            "ready to accept connections")
        (folder / "password").write_text("first-secret\n", encoding="utf-8")
        (folder / "admin").write_text("admin-secret\n", encoding="utf-8")
        rules = running.directory()
        (rules / "shop.yaml").write_text(RULES, encoding="utf-8")
        sluiced, ready = running.start(
            [SLUICED, "--rules", rules, "--redis", f"unix://{folder}/redis.sock",
             "--redis-timeout", "900ms", "--redis-password-file", folder / "password",
             "--admin-token-file", folder / "admin",
             "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], "ready grpc=")
        caller = Grpc(ready.split("grpc=")[1].split()[0])
        web = ready.split("http=")[1].split()[0]

        def by_redis():
            return caller.check().source == api.SOURCE_STORE

        running.wait_until(by_redis, 30, "Redis decides")
        subprocess.run(["redis-cli", "-s", folder / "redis.sock", "--no-auth-warning",
                        "-a", "first-secret"], check=True, text=True, stdout=subprocess.DEVNULL,
                       input="CONFIG SET requirepass second-secret\n"
                             "CLIENT KILL TYPE normal SKIPME yes\n")
        running.wait_until(lambda: not by_redis(), 30, "the first password is refused")
        (folder / "password").write_text("second-secret\n", encoding="utf-8")
        running.wait_until(by_redis, 30, "Redis decides again")

        told = "".join(sluiced.heard) + Http(web).ask("GET", "/metrics")[1]
        told += Http(web, "admin-secret").ask("GET", "/rules")[1]
        told += pathlib.Path(f"/proc/{sluiced.pid}/cmdline").read_text(encoding="utf-8")
        self.assertIn('"rule":"pay"', told)
        self.assertNotIn("-secret", told)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
