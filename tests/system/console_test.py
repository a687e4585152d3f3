"""`sluice console`: who may call its API, and what it answers.

Usage: console_test.py SLUICE SLUICED
"""

import http.client
import json
import re
import socket
import subprocess
import sys
import unittest

import running
from watched import Watched, environment

SLUICE, SLUICED = sys.argv.pop(1), sys.argv.pop(1)
PAY = {"domain": "shop", "attributes": {"endpoint": "/pay", "user": "ada"}}
APIS = [("GET", "/api/state"), ("GET", "/api/rules?server=0"), ("POST", "/api/explain?server=0"),
        ("POST", "/api/reset?server=0")]


class ConsoleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Watched(SLUICE, SLUICED)
        cls.console, _ = running.start([SLUICE, "console", "--addr", cls.server.address], "#token=",
                                       env=environment())
        url = re.search(r"http://127\.0\.0\.1:(\d+)/#token=([0-9a-f]{32})\n",
                        "".join(cls.console.heard))
        cls.port, cls.token = int(url.group(1)), url.group(2)

    def ask(self, method, path, body=None, token="", **headers):
        """Returns the answer's status, headers and body. In `headers`, _ in a name stands for -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def call(self, method, path, body=None):
        status, _, text = self.ask(method, path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_page_needs_no_token_and_has_a_strict_policy(self):
        for path, kind in [("/", "text/html"), ("/console.js", "text/javascript"),
                           ("/console.css", "text/css"), ("/chart.js", "text/javascript"),
                           ("/icon.svg", "image/svg+xml")]:
            status, headers, body = self.ask("GET", path, token=None)
            self.assertEqual(status, 200, path)
            self.assertTrue(headers["Content-Type"].startswith(kind), headers["Content-Type"])
            self.assertIn("default-src 'none'; script-src 'self'; style-src 'self'",
                          headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertNotIn(self.token, body)
        self.assertEqual(self.ask("GET", "/../admin.proto")[0], 404)

    def test_api_needs_the_token(self):
        for method, path in APIS:
            for token in (None, "guess", self.token[:-1], self.token + "0"):
                status, _, body = self.ask(method, path, PAY if method == "POST" else None, token)
                self.assertEqual(status, 401, (path, token))
                self.assertNotIn("shop", body)
            # A cookie or the query cannot replace the header.
            status, _, _ = self.ask(method, path.split("?")[0] + f"?token={self.token}", PAY, None,
                                    Cookie=f"token={self.token}")
            self.assertEqual(status, 401)

    def test_other_host_names_are_refused(self):
        """DNS rebinding: the host name of a foreign page now points to this machine."""
        others = ["evil.test", f"evil.test:{self.port}", "127.0.0.1", "localhost",
                  f"127.0.0.1:{self.port + 1}", f"127.0.0.1.evil.test:{self.port}",
                  f"[::1]:{self.port}", f"localhost.:{self.port}"]
        for host in others:
            for method, path in [*APIS, ("GET", "/"), ("GET", "/console.js")]:
                self.assertEqual(self.ask(method, path, Host=host)[0], 403, (host, path))
        for host in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            self.assertEqual(self.ask("GET", "/api/state", Host=host)[0], 200, host)

    def test_requests_from_other_sites_are_refused_even_with_the_token(self):
        for headers in ({"Origin": "http://evil.test"}, {"Origin": "null"},
                        {"Origin": f"http://127.0.0.1:{self.port + 1}"},
                        {"Sec_Fetch_Site": "cross-site"}):
            for method, path in APIS:
                self.assertEqual(self.ask(method, path, PAY, **headers)[0], 403, (headers, path))
        own = {"Origin": f"http://127.0.0.1:{self.port}", "Sec_Fetch_Site": "same-origin"}
        self.assertEqual(self.ask("GET", "/api/state", **own)[0], 200)

    def test_no_answer_may_be_read_by_other_origins(self):
        for origin, refused in ((f"http://127.0.0.1:{self.port}", False),
                                ("http://evil.test", True)):
            for method, path in APIS:
                status, headers, _ = self.ask(method, path, Origin=origin)
                self.assertEqual(status == 403, refused, (origin, path))
                self.assertNotIn("Access-Control-Allow-Origin", headers)
        self.assertEqual(self.ask("OPTIONS", "/api/reset?server=0")[0], 405)

    def test_explain_and_reset_need_post(self):
        for path in ("/api/explain?server=0", "/api/reset?server=0"):
            self.assertEqual(self.ask("GET", path)[0], 405)

    def test_listens_only_on_loopback(self):
        listening = subprocess.run(["ss", "-Hltn", f"sport = :{self.port}"], capture_output=True,
                                   text=True, check=True).stdout.split()
        self.assertIn(f"127.0.0.1:{self.port}", listening)
        with socket.socket(socket.AF_INET6) as caller:
            self.assertNotEqual(caller.connect_ex(("::1", self.port)), 0)

    def test_state_has_the_most_used_keys(self):
        self.server.check(2, "endpoint=/orders")

        def used():
            state = self.call("GET", "/api/state")
            return [key for key in state["most_used"] if key["rule"] == "orders"]
        self.assertEqual(running.wait_until(used, 60, "the key")[0]["subject"], "")

    def test_rules_have_their_source_line(self):
        rules = self.call("GET", "/api/rules?server=0")["rules"]
        self.assertEqual([it["rule"] for it in rules], ["per-user", "orders"])
        self.assertTrue(rules[1]["location"].endswith("shop.yaml:7"), rules[1]["location"])

    def test_explain_agrees_with_the_command_and_consumes_nothing(self):
        self.server.check(3, "endpoint=/pay", "user=eve")
        request = {"domain": "shop", "attributes": {"endpoint": "/pay", "user": "eve"}}
        for _ in range(3):
            answer = self.call("POST", "/api/explain?server=0", request)
        command = self.server.sluice("explain", "shop", "endpoint=/pay", "user=eve").stdout
        # Between the two answers, the time until the reset gets shorter.
        steady = [re.sub(r"resets in .*", "", it) for it in (answer["text"], command)]
        self.assertEqual(*steady)
        self.assertIn("7 of 10 left", answer["text"])
        self.assertEqual(answer["answer"]["rules"][0]["counters"][0]["status"]["remaining"], "7")

    def test_reset_empties_the_counters_of_the_rule(self):
        self.server.check(10, "endpoint=/pay", "user=ada")
        reset = self.call("POST", "/api/reset?server=0", {**PAY, "rule": "per-user"})
        self.assertEqual(reset["keys"], ["sluice:{shop/per-user/user=ada}:fixed_window:1d"])
        self.assertIn("10 of 10 left", self.call("POST", "/api/explain?server=0", PAY)["text"])

    def test_errors_in_requests_are_named(self):
        cases = [("/api/explain?server=7", PAY, "server: must be a number below 1"),
                 ("/api/explain?server=", PAY, "server: must be"),
                 ("/api/explain?server=0x", PAY, "server: must be"),
                 ("/api/explain", PAY, "server: must be"),
                 ("/api/explain?server=0", {"domian": "shop"}, "domian"),
                 ("/api/explain?server=0", {**PAY, "amounts": {"x": "many"}}, "many"),
                 ("/api/explain?server=0", [PAY], ""),
                 ("/api/explain?server=0", {"domain": ""}, "domain")]
        for path, body, mistake in cases:
            status, _, text = self.ask("POST", path, body)
            self.assertEqual(status, 400, (path, body, text))
            error = json.loads(text)["error"]
            self.assertEqual(error["code"], "INVALID_ARGUMENT")
            self.assertIn(mistake, error["message"])

    def test_port_in_use_is_an_error(self):
        result = subprocess.run([SLUICE, "console", "--addr", self.server.address, "--port",
                                 str(self.port)], text=True, capture_output=True, timeout=60,
                                check=False, env=environment())
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("--port: ", result.stderr)

    def test_no_server_is_an_error(self):
        result = subprocess.run([SLUICE, "console", "--addr", "unix:/nonexistent/s"], text=True,
                                capture_output=True, timeout=60, check=False, env=environment())
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("no server answers", result.stderr)


class EndTest(unittest.TestCase):
    def test_lost_server_is_reported_and_a_signal_ends_the_console(self):
        server = Watched(SLUICE, SLUICED)
        console, line = running.start([SLUICE, "console", "--addr", server.address], "#token=",
                                      env=environment())
        host, token = re.search(r"http://(\S+)/#token=(\w+)", line).groups()
        server.kill()
        connection = http.client.HTTPConnection(host, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/api/explain?server=0", json.dumps(PAY),
                           {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 502)
        self.assertEqual(json.loads(answer.read())["error"]["code"], "UNAVAILABLE")
        console.terminate()
        self.assertEqual(console.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
