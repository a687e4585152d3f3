"""The admin commands of the real `sluice` against a running `sluiced`: explain, rules, reset,
reload. Also permissions, the log, and the command validate, which needs no server.

Usage: sluice_admin_test.py SLUICE SLUICED SOURCE_DIR
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SLUICE, SLUICED, SOURCE = sys.argv.pop(1), sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))

RULES = """\
domain: shop
rules:
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits:
      - {algorithm: fixed_window, limit: 10, window: 1d}
      - {algorithm: sliding_log, limit: 20, window: 1d}
  - name: per-phone
    match: {endpoint: /pay}
    per: [phone]
    limits: [{algorithm: token_bucket, rate: 1/d, burst: 5}]
  - name: trial
    match: {endpoint: /pay}
    limits: [{algorithm: token_bucket, rate: 1/d, burst: 3}]
    mode: shadow
"""
BROKEN = RULES + "  - name: broken\n    limts: blocked\n"
TOKEN = "open-sesame-4711"


def wait_for(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out while waiting for {what}")
        time.sleep(0.01)


def environment(more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return {**kept, **more}


def sluice(*arguments, **variables):
    return subprocess.run(
        [SLUICE, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(variables),
    )


class Server:
    """A sluiced in a new directory, by default on a unix socket."""

    def __init__(self, test, *flags, address=None, settings="{}", **variables):
        temporary = tempfile.TemporaryDirectory()
        test.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.rules = self.folder / "rules"
        self.rules.mkdir()
        self.write_rules(RULES)
        self.settings = self.folder / "sluice.yaml"
        self.settings.write_text(settings, encoding="utf-8")
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [SLUICED, "--config", self.settings, "--rules", self.rules, "--http", "127.0.0.1:0"]
                + ["--grpc", address or f"unix:{self.folder}/grpc.sock", *flags],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env=environment(variables),
            )
        test.addCleanup(self.stop)
        wait_for(lambda: "ready grpc=" in self.logged(), "the server")
        self.address = re.search(r"ready grpc=(\S+)", self.logged()).group(1)

    def write_rules(self, text):
        """Replaces the file atomically, as an editor does."""
        new = self.folder / "new"
        new.write_text(text, encoding="utf-8")
        new.rename(self.rules / "shop.yaml")

    def logged(self):
        return self.log.read_text(encoding="utf-8")

    def sluice(self, command, *arguments, **variables):
        return sluice(command, *arguments, "--addr", self.address, **variables)

    def left(self, *attributes):
        """The units left at the first limit."""
        answer = json.loads(self.sluice("check", "shop", *attributes, "--peek", "--json").stdout)
        return int(answer["limits"][0]["remaining"])

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class LookingInsideTest(unittest.TestCase):
    def setUp(self):
        self.server = Server(self)

    def test_explain_takes_no_units_and_says_what_each_rule_does(self):
        self.server.sluice("check", "shop", "endpoint=/pay", "user=a", "--cost", "3")
        for _ in range(2):
            result = self.server.sluice("explain", "shop", "endpoint=/pay", "user=a")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(
            result.stdout,
            r"""(?x)\AALLOWED\ \ by\ per-user\ \(fixed_window\ 7\ of\ 10\ left\)\n
            \ \ per-user\ \ enforced\n
            \ \ \ \ fixed_window\ \ 7\ of\ 10\ left\ \ resets\ in\ .*\n
            \ \ \ \ \ \ sluice:\{shop/per-user/user=a\}:fixed_window:1d\n
            \ \ \ \ sliding_log\ \ 17\ of\ 20\ left\ \ resets\ in\ .*\n
            \ \ \ \ \ \ sluice:\{shop/per-user/user=a\}:sliding_log:1d\n
            \ \ per-phone\ \ skipped:\ attribute\ "phone"\ is\ missing\n
            \ \ trial\ \ shadow\n
            \ \ \ \ token_bucket\ \ 0\ of\ 3\ left\ .*\(shadow\)\n
            \ \ \ \ \ \ sluice:\{shop/trial/\}:token_bucket:1d\n\Z""",
        )
        as_json = self.server.sluice("explain", "shop", "endpoint=/pay", "user=a", "--json")
        self.assertEqual(
            [rule["effect"] for rule in json.loads(as_json.stdout)["rules"]],
            ["enforced", "skipped", "shadow"],
        )

    def test_printed_rules_are_a_valid_file(self):
        result = self.server.sluice("rules", "shop")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"  # {self.server.rules}/shop.yaml:3\n  - name: per-user\n", result.stdout)
        copy = self.server.folder / "copy"
        copy.mkdir()
        (copy / "shop.yaml").write_text(result.stdout, encoding="utf-8")
        self.assertEqual(sluice("validate", copy).stdout, "valid: 3 rules in 1 domain\n")
        none = self.server.sluice("rules", "elsewhere")
        self.assertEqual(none.returncode, 1)
        self.assertEqual(none.stdout, "no rules of domain elsewhere are in force\n")

    def test_reset_resets_the_counters_of_one_rule_or_of_all_rules(self):
        request = ("endpoint=/pay", "user=a")
        self.server.sluice("check", "shop", *request, "--cost", "3")
        one = self.server.sluice("reset", "shop", *request, "--rule", "trial")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertEqual(
            one.stdout, "reset:\n  sluice:{shop/trial/}:token_bucket:1d\n"
        )
        self.assertEqual(self.server.left(*request), 7)
        keys = json.loads(self.server.sluice("reset", "shop", *request, "--json").stdout)["keys"]
        self.assertEqual(len(keys), 3)
        self.assertEqual(self.server.left(*request), 10)
        wrong = self.server.sluice("reset", "shop", *request, "--rule", "per-phone")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('NOT_FOUND: rule "per-phone": attribute "phone" is missing', wrong.stderr)

    def test_reset_of_a_request_that_no_rule_counts_exits_1(self):
        for request in (("shop", "endpoint=/elsewhere"), ("shpo", "endpoint=/pay", "user=a")):
            result = self.server.sluice("reset", *request)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(
                result.stdout,
                "nothing to reset: no rule counts this request; sluice explain says why\n",
            )
            as_json = self.server.sluice("reset", *request, "--json")
            self.assertEqual((as_json.returncode, json.loads(as_json.stdout)), (1, {"keys": []}))

    def test_keys_cannot_control_the_terminal(self):
        request = ("endpoint=/pay", "user=\u202e\u009b31m")
        for command in ("explain", "reset"):
            text = self.server.sluice(command, "shop", *request).stdout
            self.assertIn(r"user=\xe2\x80\xae\xc2\x9b31m}", text)
            self.assertTrue(text.isascii(), text)

    def test_reload_applies_good_rules_and_refuses_broken_ones(self):
        self.server.write_rules(BROKEN)
        refused = self.server.sluice("reload")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stdout, r"\Arefused: 3 rules in force since .*, as before\n")
        self.assertIn('shop.yaml:18:5: rules[3].limts: unknown key', refused.stdout)
        self.assertEqual(self.server.left("endpoint=/pay", "user=a"), 10)
        self.server.write_rules(RULES.replace("limit: 10", "limit: 11"))
        applied = self.server.sluice("reload")
        self.assertEqual(applied.returncode, 0, applied.stderr)
        self.assertRegex(applied.stdout, r"\A(applied|unchanged): 3 rules in force since 20.*Z\n\Z")
        self.assertEqual(self.server.left("endpoint=/pay", "user=a"), 11)
        unchanged = self.server.sluice("reload")
        self.assertEqual(unchanged.returncode, 0, unchanged.stderr)
        self.assertRegex(unchanged.stdout, r"\Aunchanged: 3 rules in force since 20.*Z\n\Z")
        wait_for(lambda: "info rules: 3 in force, unchanged" in self.server.logged(), "the line")
        self.assertTrue(json.loads(self.server.sluice("reload", "--json").stdout)["applied"])


class RedisTest(unittest.TestCase):
    """The counters are in Redis, so a reset applies to the whole fleet."""

    def test_reset_applies_to_other_servers(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        redis_socket = f"{folder.name}/redis.sock"
        redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", redis_socket, "--save", ""],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=folder.name,
        )
        self.addCleanup(redis.wait, 20)
        self.addCleanup(redis.terminate)
        wait_for(lambda: os.path.exists(redis_socket), "redis-server")
        flags = ("--redis", f"unix://{redis_socket}", "--redis-timeout", "5s")
        servers = [Server(self, *flags) for _ in range(2)]
        request = ("endpoint=/pay", "user=a")
        spent = servers[0].sluice("check", "shop", *request, "--cost", "10", "--json")
        self.assertEqual(json.loads(spent.stdout)["source"], "SOURCE_STORE")
        self.assertEqual(servers[1].left(*request), 0)
        result = servers[1].sluice("reset", "shop", *request)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(servers[0].left(*request), 10)


class AccessTest(unittest.TestCase):
    def assert_refused(self, result, said):
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertEqual(result.stdout, "")
        self.assertIn(said, result.stderr)

    def test_admin_socket_admits_only_the_servers_user(self):
        for address in (None, "127.0.0.1:0"):
            server = Server(self, address=address)
            self.assertEqual(server.sluice("rules").returncode, 0)
            socket_path = re.search(r"admin=unix:(\S+)", server.logged()).group(1)
            self.assertEqual(pathlib.Path(socket_path).stat().st_mode & 0o777, 0o600)
            named = sluice("rules", "--admin", f"unix:{socket_path}", "--addr", "127.0.0.1:1")
            self.assertEqual(named.returncode, 0, named.stderr)

    def test_public_port_without_token_refuses_local_admin_calls(self):
        server = Server(self, address="127.0.0.1:0")
        for command in (["rules"], ["explain", "shop"], ["reset", "shop"], ["reload"]):
            refused = sluice(*command, "--admin", server.address)
            self.assert_refused(refused, "PERMISSION_DENIED: admin calls are not served at this address")
            self.assertIn("admin.listen", refused.stderr)
            self.assertIn("admin.token_file", refused.stderr)
        self.assertEqual(server.sluice("check", "shop").returncode, 0)

    def test_admin_off_creates_no_socket(self):
        server = Server(self, "--admin", "off")
        self.assert_refused(server.sluice("rules"), "no server answers at unix:")
        self.assertIn("admin.listen", server.sluice("rules").stderr)

    def test_flag_admin_sets_the_socket_of_server_and_tool(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(self, "--admin", f"unix:{folder}/ops.sock")
            self.assert_refused(server.sluice("rules"), "no server answers at unix:")
            named = server.sluice("rules", "--admin", f"unix:{folder}/ops.sock")
            self.assertEqual(named.returncode, 0, named.stderr)

    def test_if_the_default_socket_fails_the_error_names_the_live_sockets_of_this_machine(self):
        with tempfile.TemporaryDirectory() as runtime:
            server = Server(self, address="127.0.0.1:0", XDG_RUNTIME_DIR=runtime)
            socket_path = re.search(r"admin=unix:(\S+)", server.logged()).group(1)
            other = sluice("rules", "--addr", "127.0.0.1:1", XDG_RUNTIME_DIR=runtime)
            self.assert_refused(other, "no server answers at unix:")
            self.assertIn(f"--admin unix:{socket_path}\n", other.stderr)
            with socket.socket(socket.AF_UNIX) as left:  # the socket of a server that was killed
                left.bind(f"{runtime}/sluice/sluiced-1.admin")
            dead = sluice("rules", "--addr", "127.0.0.1:2", XDG_RUNTIME_DIR=runtime)
            self.assertIn(f"--admin unix:{socket_path}\n", dead.stderr)
            self.assertNotIn("sluiced-1.admin", dead.stderr)
            if os.geteuid() == 0:  # root finds the socket of the service's user
                os.chown(f"{runtime}/sluice", 65534, 65534)
                refused = sluice("rules", "--addr", server.address, XDG_RUNTIME_DIR=runtime)
                self.assert_refused(refused, "it belongs to another user")
                self.assertIn(f"--admin unix:{socket_path}\n", refused.stderr)
                named = sluice("rules", "--admin", f"unix:{socket_path}")
                self.assertEqual(named.returncode, 0, named.stderr)

    def test_public_port_admits_callers_with_the_token(self):
        server = Server(self, "--admin", "off", SLUICE_ADMIN_TOKEN=TOKEN)
        public = ("rules", "--admin", server.address)
        self.assert_refused(sluice(*public), "UNAUTHENTICATED: needs `authorization: Bearer")
        self.assert_refused(sluice(*public), "--token-file FILE, or set SLUICE_TOKEN")
        wrong = server.sluice("rules", SLUICE_TOKEN="wrong")
        self.assert_refused(wrong, "UNAUTHENTICATED: this is not the server's admin token")
        self.assertEqual(server.sluice("rules", SLUICE_TOKEN=TOKEN).returncode, 0)
        file = server.folder / "token"
        file.write_text(TOKEN + "\n", encoding="utf-8")
        right = server.sluice("rules", "--token-file", file, SLUICE_TOKEN="wrong")
        self.assertEqual(right.returncode, 0, right.stderr)
        missing = server.sluice("rules", "--token-file", "/nonexistent")
        self.assert_refused(missing, "--token-file: /nonexistent cannot be read")


class TlsTest(unittest.TestCase):
    """The flags of TLS apply to --admin, too, unless it is an admin socket."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.certificate, cls.key = f"{folder.name}/tls.crt", f"{folder.name}/tls.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
            + ["-nodes", "-days", "2", "-subj", "/CN=sluice.example", "-keyout", cls.key]
            + ["-addext", "subjectAltName=IP:127.0.0.1", "-out", cls.certificate],
            check=True,
            capture_output=True,
        )

    def server(self):
        flags = ("--tls-certificate", self.certificate, "--tls-key", self.key)
        return Server(self, *flags, address="127.0.0.1:0", SLUICE_ADMIN_TOKEN=TOKEN)

    def rules(self, *flags):
        return sluice("rules", "--tls-ca", self.certificate, *flags, SLUICE_TOKEN=TOKEN)

    def test_admin_on_tcp_is_called_over_tls_and_its_host_is_the_name_in_the_certificate(self):
        server = self.server()
        ours = ("--addr", "elsewhere.example:8081", "--admin", server.address)
        result = self.rules(*ours)
        self.assertEqual(result.returncode, 0, result.stderr)
        other = self.rules(*ours, "--tls-server-name", "elsewhere.example")
        self.assertEqual(other.returncode, 2, other.stdout)
        self.assertIn("certificate", other.stderr)

    def test_plaintext_server_does_not_get_the_token(self):
        plain = Server(self, address="127.0.0.1:0", SLUICE_ADMIN_TOKEN=TOKEN)
        result = self.rules("--admin", plain.address)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(f"no server answers at {plain.address}", result.stderr)

    def test_admin_socket_is_called_without_tls(self):
        server = self.server()
        socket_path = re.search(r"admin=(unix:\S+)", server.logged()).group(1)
        for flags in (("--admin", socket_path), ("--addr", server.address)):
            result = sluice("rules", "--tls-ca", self.certificate, *flags)
            self.assertEqual(result.returncode, 0, result.stderr)


class ValidateTest(unittest.TestCase):
    def test_validate_of_good_rules_exits_0(self):
        result = sluice("validate", SOURCE / "config" / "rules")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, r"\Avalid: \d+ rules in 1 domain\n\Z")

    def test_mistakes_in_every_file_are_printed_and_validate_exits_1(self):
        bad = SOURCE / "tests" / "config" / "bad"
        result = sluice("validate", bad)
        self.assertEqual(result.returncode, 1, result.stderr)
        for file in bad.glob("*.yaml"):
            self.assertIn(f"{file}:", result.stdout)
        as_json = sluice("validate", bad, "--json")
        self.assertEqual(as_json.returncode, 1)
        findings = json.loads(as_json.stdout)
        self.assertFalse(findings["valid"])
        self.assertEqual(len(findings["errors"]), len(result.stdout.splitlines()) - 1)

    def test_single_file_is_validated(self):
        file = SOURCE / "config" / "rules" / "shop.yaml"
        self.assertEqual(
            sluice("validate", file).stdout, sluice("validate", file.parent).stdout
        )
        bad = sluice("validate", SOURCE / "tests" / "config" / "bad" / "key_twice.yaml")
        self.assertEqual(bad.returncode, 1)
        self.assertTrue(bad.stdout.endswith("\n1 mistake\n"), bad.stdout)
        envoys = next((SOURCE / "docker" / "envoy" / "rules").glob("*.yaml"))
        self.assertEqual(sluice("validate", "--envoy", envoys).returncode, 0)

    def test_warnings_are_printed_and_validate_exits_0(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "shop.yaml"
            file.write_text(
                "domain: shop\nrules:\n  - name: api\n    match: {path: /api/*}\n    limits: blocked\n",
                encoding="utf-8",
            )
            result = sluice("validate", folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(
                result.stdout.startswith(f'warning: {file}:4:19: rules[0].match.path: "/api/*" is '),
                result.stdout,
            )
            self.assertTrue(result.stdout.endswith("\nvalid: 1 rule in 1 domain, with 1 warning\n"))
            findings = json.loads(sluice("validate", folder, "--json").stdout)
            self.assertTrue(findings["valid"])
            self.assertEqual(findings["warnings"][0]["path"], "rules[0].match.path")

    def test_error_for_rules_of_the_other_kind_names_the_right_command(self):
        theirs = sluice("validate", SOURCE / "docker" / "envoy" / "rules")
        self.assertEqual(theirs.returncode, 1)
        self.assertIn("sluice validate --envoy DIR", theirs.stderr)
        ours = sluice("validate", "--envoy", SOURCE / "config" / "rules")
        self.assertEqual(ours.returncode, 1)
        self.assertIn("Sluice's own rules: sluice validate DIR", ours.stderr)

    def test_validate_exits_1_without_files_and_2_with_unreadable_files(self):
        with tempfile.TemporaryDirectory() as empty:
            result = sluice("validate", empty)
            self.assertEqual(result.returncode, 1)
            self.assertIn("found no rule files", result.stdout)
        result = sluice("validate", "/nonexistent")
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nonexistent: cannot be read", result.stderr)
        self.assertEqual(sluice("validate").returncode, 2)


class NoRulesTest(unittest.TestCase):
    def test_server_without_rules_says_which_files_it_reads(self):
        with tempfile.TemporaryDirectory() as rules:
            folder = pathlib.Path(rules) / "shop"
            folder.mkdir()
            (folder / "shop.yaml").write_text(RULES, encoding="utf-8")
            server = Server(self, "--rules", rules)
            self.assertIn(f"warning rules: none in {rules}; every request is", server.logged())
            self.assertIn("not in subdirectories", server.logged())
        self.assertNotIn("rules: none", Server(self).logged())


class LogTest(unittest.TestCase):
    def entries(self, server):
        return [json.loads(line) for line in server.logged().splitlines()]

    def test_every_line_of_a_json_log_is_an_object(self):
        server = Server(self, "--log-format", "json")
        odd = 'name: "quote \\" and\\nnewline"'
        server.write_rules(RULES.replace("name: trial", odd))
        self.assertEqual(server.sluice("reload").returncode, 1)
        entries = self.entries(server)
        for entry in entries:
            self.assertEqual(list(entry), ["time", "level", "message"])
        self.assertTrue(any('quote " and' in entry["message"] for entry in entries), entries)

    def test_log_is_json_even_if_the_start_fails(self):
        with tempfile.TemporaryDirectory() as rules:
            shutil.copy(SOURCE / "tests" / "config" / "bad" / "many_at_once.yaml", rules)
            flags = ["--rules", rules, "--log-format", "json"]
            failed = subprocess.run(
                [SLUICED, *flags], capture_output=True, check=False, env=environment({})
            )
        self.assertEqual(failed.returncode, 2)
        levels = {json.loads(line)["level"] for line in failed.stderr.splitlines()}
        self.assertEqual(levels, {"error"})

    def test_each_rule_whose_failure_policy_decides_is_logged(self):
        server = Server(self, "--redis", "unix:///nonexistent/redis.sock")
        attributes = ("endpoint=/pay", "user=a", "phone=1")
        load = subprocess.Popen(
            [SLUICE, "check", "shop", *attributes, "--repeat", "100000", "--rate", "20"]
            + ["--addr", server.address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(load.wait, 20)
        self.addCleanup(load.terminate)
        # Both rules are named, although the server logs at most one such warning a second.
        for rule in ("per-user", "per-phone"):
            warning = f"rule shop/{rule}: its on_store_failure decided 100.0 % of its checks"
            wait_for(lambda said=warning: said in server.logged(), "the warning")

    def test_sighup_changes_the_log_level(self):
        server = Server(self, settings="log: {level: info, format: json}")
        server.settings.write_text("log: {level: debug, format: json}", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "log.level: from info to debug" in server.logged(), "the level")
        server.write_rules(RULES)  # at level debug, unchanged rules are logged too
        wait_for(lambda: '"level":"debug"' in server.logged(), "a line of level debug")
        server.settings.write_text("log: {level: loud, format: json}", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "log.level stays debug" in server.logged(), "the mistake")
        server.settings.write_text("log: {level: error, format: json}", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "log.level: from debug to error" in server.logged(), "the level")
        server.stop()
        self.assertNotIn("stopped", server.logged())

    def test_after_sighup_settings_that_need_a_restart_are_logged(self):
        server = Server(self, settings="{drain: 5s, top_keys: true, max_memory: 64MiB}")
        changed = "{log: {level: warn}, drain: 6s, max_keys: 9999, max_memory: 64MiB}"
        server.settings.write_text(changed, encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        said = "HUP: only log.level takes effect; restart to apply drain, max_keys, top_keys\n"
        wait_for(lambda: said in server.logged(), "the names")

    def test_secrets_are_never_logged(self):
        # No Redis listens at the address, so the log mentions the URL.
        password = "hunter2-4711"
        server = Server(
            self,
            "--log-level=trace",
            "--redis",
            f"redis://somebody:{password}@127.0.0.1:1",
            SLUICE_ADMIN_TOKEN=TOKEN,
        )
        server.sluice("rules", SLUICE_TOKEN=TOKEN)
        server.sluice("rules", SLUICE_TOKEN="wrong-guess-4711")
        server.settings.write_text("log: {level: loud}", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "log.level stays" in server.logged(), "the mistake")
        server.stop()
        self.assertIn("127.0.0.1:1", server.logged())
        self.assertNotIn("4711", server.logged())


class EnvironmentTest(unittest.TestCase):
    def test_server_ignores_the_variables_of_the_tool(self):
        server = Server(self, SLUICE_ADDR="127.0.0.1:1", SLUICE_TOKEN="x")
        self.assertEqual(server.sluice("check", "shop").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
