"""The real nginx, Caddy and HAProxy, with the files in docker/: for each request, they ask a real
sluiced before they pass the request to a backend.

Usage: proxies_test.py SLUICED SOURCE_DIRECTORY
"""

import collections
import concurrent.futures
import http.client
import http.server
import pathlib
import re
import socket
import subprocess
import sys
import threading
import unittest

import running

SLUICED = sys.argv[1]
CONFIGS = pathlib.Path(sys.argv[2]) / "docker"

# The bucket of `per-client` does not refill while a test runs.
RULES = """
domain: web
rules:
  - name: per-client
    match: {endpoint: {prefix: /pay}, method: [GET]}
    per: [client_ip, endpoint]
    limits: [{algorithm: token_bucket, rate: 10/d, burst: 10}]
    overrides:
      - {match: {plan: gold}, limits: unlimited}
  - name: slow
    match: {endpoint: /slow}
    limits: [{algorithm: leaky_bucket, rate: 1/m, queue: 100}]
  - name: logins
    match: {endpoint: {prefix: /login}, method: [POST]}
    per: [client_ip, endpoint]
    limits: [{algorithm: token_bucket, rate: 3/d, burst: 3}]
"""
# The RateLimit headers of these 40 rules have 9 KB.
RULES += "".join(f"""
  - name: {number:0100}
    match: {{endpoint: /many}}
    limits: [{{algorithm: token_bucket, rate: 1/d, burst: 1}}]
""" for number in range(40))


class Backend(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.headers["Transfer-Encoding"]:
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + len("\r\n"))
            self.rfile.readline()
        self.server.authorizations.append(self.headers["Authorization"])
        status = 403 if self.path == "/forbidden" else 200
        self.send_response(status)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"backend")

    do_POST = do_GET

    def log_message(self, *_):
        pass


def start_backend():
    """Starts a backend. Returns its address, and a list of the requests' Authorization headers."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    server.authorizations = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    unittest.addModuleCleanup(server.server_close)
    unittest.addModuleCleanup(server.shutdown)
    return f"127.0.0.1:{server.server_address[1]}", server.authorizations


def write_config(name, changes):
    """Copies docker/`name` to a new folder, with `changes`. Returns the path of the copy."""
    text = (CONFIGS / name).read_text(encoding="utf-8")
    for written, here in changes.items():
        assert written in text, written
        text = text.replace(written, here)
    path = running.directory() / pathlib.Path(name).name
    path.write_text(text, encoding="utf-8")
    return path


def ask(port, path, method="GET", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def ask_with_body(port, method_and_path, body):
    """Sends a request in one piece: HAProxy may deny it, and close, before it has read another one.
    `body` begins with the last header. Returns the status."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(f"{method_and_path} HTTP/1.1\r\nHost: test\r\n{body}".encode())
        with http.client.HTTPResponse(client) as answer:
            answer.begin()
            return answer.status


class Proxy:
    """The tests for every proxy. A subclass defines how its proxy is started."""

    @classmethod
    def setUpClass(cls):
        rules = running.directory()
        (rules / "web.yaml").write_text(RULES, encoding="utf-8")
        cls.sluiced, ready = running.start(
            [SLUICED, "--rules", rules, "--grpc", f"unix:{rules}/grpc", "--http", "127.0.0.1:0"],
            "ready grpc=")
        cls.sluice = ready.split("http=")[1].split()[0]
        cls.backend, cls.authorizations = start_backend()
        cls.port = cls.start_proxy(cls.sluice)

    @classmethod
    def start_proxy(cls, sluice, domain="web"):
        port = running.free_port()
        cls.start(str(port), sluice, cls.backend, f"domain={domain}&")
        running.wait_until(lambda: running.listens(port), 60, "the proxy listens")
        return port

    def test_step1_ten_of_twenty_simultaneous_requests_pass(self):
        with concurrent.futures.ThreadPoolExecutor(20) as callers:
            answers = list(callers.map(lambda _: ask(self.port, "/pay?id=1"), range(20)))
        self.assertEqual(collections.Counter(status for status, _, _ in answers),
                         {200: 10, 429: 10})
        for status, body, headers in answers:
            if status == 200:
                self.assertEqual(body, "backend")
                continue
            self.assertGreater(int(headers["Retry-After"]), 0)
            self.assertEqual(headers["RateLimit-Policy"], '"per-client";q=10')
            self.assertRegex(headers["RateLimit"], r'^"per-client";r=0;t=\d+$')

    def test_step2_a_client_cannot_bypass_its_limit(self):
        for _ in range(10):
            ask(self.port, "/pay/2")
        tricks = (("/pay/2?plan=gold&domain=other", {}), ("/%70ay/2", {}), ("//pay/./2", {}),
                  ("/x/../pay/2", {}), ("/x/%2e%2e/pay//2", {}),
                  ("/pay/2", {"X-Sluice-Attr-Plan": "gold", "X-Sluice-Domain": "other"}),
                  ("/pay/2", {"X-Client-IP": "192.0.2.1"}),
                  ("/pay/2", {"X-Forwarded-For": "192.0.2.1"}),
                  ("/pay/2", {"X-Original-URI": "/", "X-Forwarded-Uri": "/"}))
        for path, headers in tricks:
            with self.subTest(path=path, headers=headers):
                self.assertEqual(ask(self.port, path, headers=headers)[0], 429)

    def test_step2_a_client_cannot_make_the_check_invalid(self):
        for path in ("/pay/%ff", "/pay/caf%E9", "/pay/" + 7_500 * "a"):
            with self.subTest(path=path):
                statuses = [ask(self.port, path)[0] for _ in range(11)]
                self.assertEqual(statuses, 10 * [200] + [429])

    def test_step2_a_request_with_a_body_has_its_limit(self):
        bodies = ("Content-Length: 6\r\n\r\nname=a",
                  "Transfer-Encoding: chunked\r\n\r\n6\r\nname=a\r\n0\r\n\r\n")
        for number, body in enumerate(bodies):
            for method, path, limit in (("POST", "/login", 3), ("GET", "/pay/body", 10)):
                with self.subTest(method=method, body=body):
                    statuses = [ask_with_body(self.port, f"{method} {path}/{number}", body)
                                for _ in range(limit + 1)]
                    self.assertEqual(statuses, limit * [200] + [429])

    def test_step2_many_limits_with_long_names_deny(self):
        self.assertEqual([ask(self.port, "/many")[0] for _ in range(2)], [200, 429])

    def test_step2_headers_of_browsers_do_not_matter(self):
        browser = {"Origin": "https://other.test", "Sec-Fetch-Site": "cross-site"}
        self.assertEqual(ask(self.port, "/", headers=browser)[0:2], (200, "backend"))
        # The proxy may refuse a control character.
        self.assertIn(ask(self.port, "/", headers={"X-Any": "a\x01b"})[0], (200, 400))

    def test_step2_a_clients_authorization_reaches_only_the_backend(self):
        asked, seen_by_sluice = start_backend()
        del self.authorizations[:]
        answer = ask(self.start_proxy(asked), "/", headers={"Authorization": "Bearer client"})
        self.assertEqual(answer[0:2], (200, "backend"))
        self.assertEqual((seen_by_sluice, self.authorizations), ([None], ["Bearer client"]))

    def test_step2_a_delay_longer_than_the_proxy_waits_is_a_denial(self):
        self.assertEqual([ask(self.port, "/slow")[0] for _ in range(3)], [200, 429, 429])

    def test_step3_requests_without_a_rule_pass(self):
        self.assertEqual(ask(self.port, "/")[0:2], (200, "backend"))
        for _ in range(11):
            self.assertEqual(ask(self.port, "/pay/3", method="POST")[0], 200)


class FailsOpen:
    """Further tests, for a proxy that has a 429 page. If Sluice is down, this proxy passes all
    requests except logins."""

    def test_step4_the_429_page_says_when_to_retry(self):
        for _ in range(11):
            _, body, _ = ask(self.port, "/pay/4")
        self.assertRegex(body, r"^Too many requests\. Try again in \d+ s\.$")

    def test_step5_the_backends_own_403_is_unchanged(self):
        self.assertEqual(ask(self.port, "/forbidden")[0:2], (403, "backend"))

    def test_step5_an_invalid_check_is_not_an_outage(self):
        self.assertEqual(ask(self.start_proxy(self.sluice, domain=""), "/")[0], 500)

    def test_step6_without_sluice_requests_except_logins_pass(self):
        self.sluiced.kill()
        self.sluiced.wait()
        self.assertEqual(ask(self.port, "/pay/2")[0:2], (200, "backend"))
        for path in ("/login", "/LOGIN/", "//login;a=b", "/x/../%6cogin?next=/"):
            with self.subTest(path=path):
                status, _, headers = ask(self.port, path)
                self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        for path in ("/login%", "/login;%zz", "/lo%67in%zz"):
            with self.subTest(path=path):
                self.assertIn(ask(self.port, path)[0], (400, 503))


class NginxTest(Proxy, FailsOpen, unittest.TestCase):
    @classmethod
    def start(cls, port, sluice, backend, domain):
        folder = running.directory()
        config = write_config("nginx/nginx.conf", {
            "listen 8088": f"listen 127.0.0.1:{port}",
            "127.0.0.1:8080": sluice,
            "127.0.0.1:9000": backend,
            "domain=web&": domain,
            "http {": "http {" + "".join(f"\n  {kind}_temp_path {folder}/{kind};" for kind in
                                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))})
        process = subprocess.Popen(["/usr/sbin/nginx", "-p", folder, "-c", config, "-e", "stderr"],
                                   stdin=subprocess.DEVNULL)
        unittest.addModuleCleanup(process.wait)
        unittest.addModuleCleanup(process.terminate)  # nginx then ends its workers, too


class CaddyTest(Proxy, unittest.TestCase):
    @classmethod
    def start(cls, port, sluice, backend, domain):
        config = write_config("caddy/Caddyfile", {
            ":8088": f":{port}", "127.0.0.1:8080": sluice, "127.0.0.1:9000": backend,
            "domain=web&": domain})
        running.start(["/usr/bin/caddy", "run", "--config", config],
                      "serving initial configuration",
                      env={"HOME": str(config.parent), "PATH": "/usr/bin:/bin"})

    def test_step6_without_sluice_no_request_passes(self):
        self.sluiced.kill()
        self.sluiced.wait()
        self.assertEqual(ask(self.port, "/pay/2")[0], 502)


class HaproxyTest(Proxy, FailsOpen, unittest.TestCase):
    @classmethod
    def start(cls, port, sluice, backend, domain):
        config = write_config("haproxy/haproxy.cfg", {
            "bind :8088": f"bind 127.0.0.1:{port}",
            "127.0.0.1:8080": sluice, "127.0.0.1:9000": backend, "domain=web&": domain})
        process = subprocess.Popen(
            ["/usr/sbin/haproxy", "-db", "-C", CONFIGS / "haproxy", "-f", config],
            stdin=subprocess.DEVNULL)
        unittest.addModuleCleanup(process.wait)
        unittest.addModuleCleanup(process.kill)


class PathsTest(unittest.TestCase):
    """The rule of docs/http.md that matches all spellings of a path."""

    def test_spellings_of_a_path_share_a_limit(self):
        page = (CONFIGS.parent / "docs/http.md").read_text(encoding="utf-8")
        rules = running.directory()
        (rules / "web.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1],
                                        encoding="utf-8")
        _, ready = running.start(
            [SLUICED, "--rules", rules, "--grpc", f"unix:{rules}/grpc", "--http", "127.0.0.1:0"],
            "ready grpc=")
        port = int(re.search(r"http=127.0.0.1:(\d+)", ready)[1])
        url = "/v1/auth?domain=web&path.endpoint=X-Original-URI&client_ip=192.0.2.1"
        spellings = ("/login", "/login/", "/LOGIN", "/login;a=b", "/Login/;a=b/", "/%6cogin")
        statuses = [ask(port, url, headers={"X-Original-URI": path})[0] for path in spellings]
        self.assertEqual(statuses, 5 * [204] + [429])
        self.assertEqual(ask(port, url, headers={"X-Original-URI": "/logins"})[0], 204)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
