"""The real `sluice` against a real `sluiced`: its output and its exit status.

Usage: sluice_cli_test.py SLUICE SLUICED
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

SLUICE, SLUICED = sys.argv.pop(1), sys.argv.pop(1)

# Only the bucket of `pace` refills while the test runs.
RULES = """
domain: shop
rules:
  - name: pay-per-user
    match: {endpoint: /boot/pay}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 20/d, burst: 20}
      - {algorithm: fixed_window, limit: 1000, window: 1d}
  - name: block-list
    match: {user: mallory}
    limits: blocked
  - name: login
    match: {endpoint: /login}
    per: [account]
    limits: [{algorithm: token_bucket, rate: 20/d, burst: 20}]
    missing: deny
  - name: pace
    match: {endpoint: /pace}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 10/s, burst: 1, borrow: true}]
  - name: model
    match: {endpoint: /ask}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 3/d, burst: 3, counts: requests}
      - {algorithm: token_bucket, rate: 100/d, burst: 100, counts: [input, output]}
      - {algorithm: fixed_window, limit: 1000, window: 1d, counts: {input: 3, output: 15}}
  - name: exports
    match: {endpoint: /export}
    per: [user]
    limits: [{algorithm: concurrency, limit: 1, ttl: 1s}]
"""


class Server:
    """A sluiced on a unix socket, with the embedded store."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.directory.name)
        (folder / "rules").mkdir()
        (folder / "rules" / "shop.yaml").write_text(RULES, encoding="utf-8")
        self.address = f"unix:{folder}/grpc.sock"
        self.process = subprocess.Popen(
            [SLUICED, "--rules", folder / "rules", "--grpc", self.address, "--http", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
        )

    def wait_until_ready(self):
        deadline = time.monotonic() + 20
        while run("check", "shop", "--peek", "--addr", self.address).returncode == 2:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("sluiced does not answer")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.directory.cleanup()


def run(*arguments, environment=None):
    return subprocess.run(
        [SLUICE, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(environment or {})},
    )


class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_until_ready()
        cls.next_user = 0

    def setUp(self):
        """Makes a new user, so each test has a full bucket."""
        type(self).next_user += 1
        self.request = ("shop", "endpoint=/boot/pay", f"user={self.next_user}")

    def check(self, *arguments):
        return run("check", *self.request, "--addr", self.server.address, *arguments)

    def test_allowed_check_shows_decision_and_limits_and_exits_0(self):
        result = self.check()
        lines = result.stdout.splitlines()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(lines[0], "ALLOWED  by pay-per-user (token_bucket 19 of 20 left)")
        self.assertRegex(lines[1], r"^  pay-per-user\[0\]  token_bucket +19 of 20 left  resets in ")
        self.assertRegex(lines[2], r"^  pay-per-user\[1\]  fixed_window +999 of 1000 left  resets ")
        self.assertEqual(len(lines), 3)

    def test_denied_check_shows_the_limit_and_the_retry_time_and_exits_1(self):
        self.assertEqual(self.check("--cost", "20").returncode, 0)
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(
            result.stdout.splitlines()[0],
            r"^DENIED  by pay-per-user \(token_bucket 0 of 20 left\)  retry in 1 h 1\d min$",
        )

    def test_cost_that_never_fits_has_no_retry_time(self):
        result = self.check("--cost", "21")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("a retry cannot help", result.stdout)
        self.assertIn("never admits this cost", result.stdout)

    def test_peek_takes_nothing(self):
        for _ in range(2):
            self.assertIn("20 of 20 left", self.check("--peek").stdout)

    def test_attributes_with_brackets_and_commas_are_not_split(self):
        words = ("endpoint=/boot/pay", "[user=x,y]", "path=[a,b]", "[list=]")
        result = run("explain", "shop", *words, "--json", "--addr", self.server.address)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run("check", "shop", "[endpoint=/boot/pay,user=x]", "--addr", self.server.address)
        self.assertEqual(result.stdout, "ALLOWED  no rule of domain shop matches\n", result.stderr)

    def test_check_that_no_rule_matches_says_so(self):
        result = run("check", "elsewhere", "--addr", self.server.address)
        self.assertEqual(result.stdout, "ALLOWED  no rules for domain elsewhere\n")
        result = run("check", "shop", "endpoint=/other", "--addr", self.server.address)
        self.assertEqual(result.stdout, "ALLOWED  no rule of domain shop matches\n")

    def test_misspelled_domain_is_shown_with_the_nearest_name(self):
        for command in ("check", "explain"):
            result = run(command, "shopp", "--addr", self.server.address)
            self.assertEqual(
                result.stdout.splitlines()[0],
                'ALLOWED  no rules for domain shopp (did you mean "shop"?)',
                result.stderr,
            )

    def test_rule_skipped_for_a_missing_attribute_is_named(self):
        result = run("check", "shop", "endpoint=/boot/pay", "--addr", self.server.address)
        self.assertEqual(
            result.stdout,
            "ALLOWED  no rule of domain shop counts this request\n"
            "  pay-per-user was skipped: no attribute user\n",
        )

    def test_rule_that_denies_without_counting_is_named(self):
        for attributes, reason in (
            (("user=mallory",), "block-list (blocked)"),
            (("endpoint=/login",), "login (no attribute account)"),
        ):
            for command, status in (("check", 1), ("explain", 0)):
                result = run(command, "shop", *attributes, "--addr", self.server.address)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertEqual(
                    result.stdout.splitlines()[0], f"DENIED  by {reason}  a retry cannot help"
                )
        answer = run("check", "shop", "user=mallory", "--json", "--addr", self.server.address)
        self.assertEqual(json.loads(answer.stdout)["limits"][0]["rule"], "block-list")

    def test_address_is_read_from_the_environment(self):
        result = run("check", *self.request, environment={"SLUICE_ADDR": self.server.address})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_json_of_one_check_is_the_response_of_the_api(self):
        answer = json.loads(self.check("--json", "--cost", "20").stdout)
        self.assertEqual(answer["decision"], "DECISION_ALLOWED")
        self.assertEqual(answer["source"], "SOURCE_STORE")
        bucket = answer["limits"][0]
        self.assertEqual(
            (bucket["rule"], bucket["algorithm"], bucket["limit"], bucket["remaining"]),
            ("pay-per-user", "ALGORITHM_TOKEN_BUCKET", "20", "0"),
        )
        denied = self.check("--json")
        self.assertEqual(denied.returncode, 1)
        self.assertEqual(json.loads(denied.stdout)["decision"], "DECISION_DENIED")

    def test_many_checks_have_a_summary_and_exit_1_if_any_is_denied(self):
        result = self.check("--repeat", "50", "--concurrency", "8")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^checks   50 in .* \(\d+/s\)$")
        self.assertRegex(result.stdout, r"(?m)^allowed  20$")
        self.assertRegex(result.stdout, r"(?m)^denied   30$")
        self.assertRegex(result.stdout, r"(?m)^errors   0$")
        self.assertRegex(
            result.stdout, r"(?m)^latency  p50 .+  p90 .+  p99 .+  p99\.9 .+  max .+$"
        )

    def test_many_allowed_checks_exit_0(self):
        self.assertEqual(self.check("--repeat", "20").returncode, 0)

    def test_many_checks_have_one_json_summary(self):
        result = self.check("--repeat", "50", "--concurrency", "8", "--json")
        summary = json.loads(result.stdout)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(
            [summary[key] for key in ("checks", "allowed", "denied", "failed", "errors")],
            [50, 20, 30, 0, {}],
        )
        self.assertEqual(list(summary["latency_us"]), ["p50", "p90", "p99", "p99.9", "max"])

    def test_wait_follows_the_rate_of_a_borrowing_bucket(self):
        pace = ("shop", "endpoint=/pace", f"user={self.next_user}")
        result = run(
            *("check", *pace, "--addr", self.server.address),
            *("--wait", "60s", "--repeat", "6", "--json"),
        )
        summary = json.loads(result.stdout)
        self.assertEqual((result.returncode, summary["allowed"]), (0, 6), result.stderr)
        # The first two checks do not wait: the first takes the token, and the second
        # borrows the next token.
        self.assertGreaterEqual(summary["seconds"], 0.4)
        self.assertGreaterEqual(summary["wait_us"]["count"], 1)

    def test_one_check_takes_requests_tokens_and_money(self):
        self.request = ("shop", "endpoint=/ask", f"user={self.next_user}")

        def ask(*arguments):
            result = self.check(*arguments)
            self.assertEqual(result.stderr, "")
            return result.returncode, re.sub(r"  (resets|denies|retry) .*", "", result.stdout)

        status, text = ask("--amount", "input=20", "--amount", "output=10", "--amount", "inptu=1")
        self.assertEqual((status, text), (0, (
            "ALLOWED  by model (token_bucket 2 of 3 left)\n"
            "  model[0]  token_bucket       2 of 3 left    units 1\n"
            "  model[1]  token_bucket    70 of 100 left   units 30\n"
            "  model[2]  fixed_window  790 of 1000 left  units 210\n"
            "  amount inptu was ignored: no rule of domain shop counts it\n")))
        status, text = ask("--amount", "output=60")
        self.assertEqual(status, 1)
        self.assertIn("790 of 1000 left  units 900\n", text)
        self.assertIn("70 of 100 left   units 60\n", text, "nothing was taken")
        charge = ("--cost", "0", "--mode", "charge", "--amount", "input=90")
        status, text = ask(*charge)
        self.assertEqual(status, 0)
        self.assertTrue(text.startswith("CHARGED over the limit"), text)
        self.assertIn("2 of 3 left    units 0\n", text, "cost 0 takes no request")
        status, text = ask()
        self.assertEqual((status, text.splitlines()[0]), (1, "DENIED  by model (token_bucket 0 of 100 left)"))
        self.assertEqual(ask("--cost", "0", "--mode", "refund", "--amount", "input=30")[0], 0)
        self.assertEqual(ask("--cost", "0", "--amount", "input=1")[0], 0)
        self.assertEqual(ask("--peek", "--amount", "input=10")[0], 1)
        too_many = self.check("--amount", f"input={2**52}")
        self.assertEqual(too_many.returncode, 2)
        self.assertIn("amounts: limits[2] of rule \"model\" counts more than 2^53", too_many.stderr)

    def test_charge_takes_units_even_if_consume_would_be_denied(self):
        denied = self.check("--cost", "30")
        self.assertEqual(denied.returncode, 1, denied.stderr)
        self.assertIn("20 of 20 left", denied.stdout)
        charged = self.check("--cost", "30", "--mode", "charge")
        self.assertEqual(charged.returncode, 0, charged.stderr)
        self.assertTrue(charged.stdout.startswith("CHARGED over the limit  by pay-per-user ("))
        self.assertIn("0 of 20 left", self.check("--peek").stdout)
        self.assertEqual(self.check("--cost", "29", "--mode", "refund").returncode, 0)
        self.assertIn("19 of 20 left", self.check("--peek").stdout)

    def test_hold_keeps_the_only_slot_until_its_command_ends(self):
        request = ("shop", "endpoint=/export", f"user={self.next_user}")
        hold = ("hold", *request, "--addr", self.server.address)
        command = ("--", "sh", "-c", "echo holding; cat")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([SLUICE, *hold, *command], **pipes) as holder:
            self.assertEqual(holder.stdout.readline(), "holding\n")
            # Without renewals, the lease would expire within these 1500 ms: its ttl is 1 s.
            denied = run(*hold, "--wait", "1500ms", "--", "echo", "ran")
            self.assertEqual((denied.returncode, denied.stdout), (1, ""), denied.stderr)
            self.assertIn("DENIED  by exports (concurrency 0 of 1 left)", denied.stderr)
            holder.stdin.close()
            self.assertEqual(holder.wait(20), 0)
        # The lease was released and did not have to expire, so the slot is free at once.
        at_once = run(*hold, "--", "sh", "-c", "echo ran; exit 7")
        self.assertEqual((at_once.returncode, at_once.stdout), (7, "ran\n"), at_once.stderr)

    def test_if_output_other_than_progress_cannot_be_written_the_exit_status_is_2(self):
        def with_full(stream, *arguments):
            with open("/dev/full", "wb") as full:
                streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
                command = [SLUICE, *arguments, "--addr", self.server.address]
                return subprocess.run(command, **streams, text=True, timeout=60, check=False)

        self.assertEqual(with_full("stdout", "check", *self.request).returncode, 2)
        self.assertEqual(with_full("stderr", "check", "").returncode, 2)
        load = ("--repeat", "12", "--rate", "10", "--json")  # long enough to show its progress
        result = with_full("stderr", "check", *self.request, *load)
        self.assertEqual((result.returncode, json.loads(result.stdout)["allowed"]), (0, 12))

    def test_rate_is_kept_and_progress_is_shown(self):
        result = self.check("--repeat", "60", "--rate", "50", "--json")
        summary = json.loads(result.stdout)
        self.assertGreaterEqual(summary["seconds"], 59 / 50)
        self.assertRegex(result.stderr, r"^\d+ of 60 checks: \d+ allowed, \d+ denied, 0 errors, ")

    def test_error_of_the_server_is_printed_and_exits_2(self):
        result = run("check", "", "--addr", self.server.address)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^sluice: INVALID_ARGUMENT: .*domain")
        many = run("check", "", "--repeat", "5", "--json", "--addr", self.server.address)
        self.assertEqual(many.returncode, 2)
        self.assertEqual(json.loads(many.stdout)["errors"]["INVALID_ARGUMENT"]["count"], 5)


class ArgumentTest(unittest.TestCase):
    def assert_refused(self, arguments, said):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, arguments)
        self.assertIn(said, result.stderr, arguments)
        self.assertEqual(result.stdout, "", arguments)

    def test_wrong_arguments_are_named_and_exit_2(self):
        for arguments, said in (
            ([], "Usage: sluice"),
            (["nonsense"], "unknown command nonsense\n"),
            (["chek"], 'unknown command chek (did you mean "check"?)\nRun sluice --help'),
            (["--versoin"], 'unknown flag --versoin (did you mean "--version"?)'),
            (["check", "shop", "a=1", "--repeet", "5"],
             'unknown flag --repeet (did you mean "--repeat"?)\nRun sluice check --help'),
            (["check", "shop", "--repeet=5"], 'unknown flag --repeet (did you mean "--repeat"?)'),
            (["check"], "DOMAIN is required"),
            (["check", "shop", "user"], 'attribute "user": expected KEY=VALUE'),
            (["check", "shop", "=42"], 'attribute "=42": expected KEY=VALUE'),
            (["check", "shop", b"a=\xff"], 'attribute "a=\\xff": not valid UTF-8\n'),
            (["check", b"sh\xfep"], 'domain "sh\\xfep": not valid UTF-8\n'),
            (["check", "shop", "a=1", "a=2"], 'attribute "a=2": already given as "a=1"'),
            (["check", "shop", "--addr", "nowhere"], '"nowhere" is not an address'),
            (["check", "shop", "--timeout", "5"], 'found "5"; allowed is a duration such as 250ms'),
            (["check", "shop", "--cost", "-1"], "--cost"),
            (["check", "shop", "--amount", "a"], '--amount "a": expected NAME=NUMBER'),
            (["check", "shop", "--amount", "=5"], '--amount "=5": expected NAME=NUMBER'),
            (["check", "shop", "--amount", "a=-1"], '--amount "a=-1": expected a whole number'),
            (["check", "shop", "--amount", f"a={2**53 + 1}"], "expected a whole number from 0 to 2^53"),
            (["hold", "shop", "--amount", "a=1", "--amount", "a=1", "--", "true"],
             '--amount "a=1": this name is given twice'),
            (["check", "shop", "--repeat", "0"], "--repeat"),
            (["check", "shop", "--rate", "5"], "--rate requires --repeat"),
            (["check", "shop", "--repeat", "2", "--lease-ttl", "1s"], "--lease-ttl excludes --repeat"),
            (["check", "shop", "--token-file", "/tmp"], "/tmp cannot be read: Is a directory"),
            (["hold", "shop", "a=1", "true"], "COMMAND comes after --"),
            (["hold", "shop", "--overload-status", "3,x", "--", "true"],
             "--overload-status: Value x not in range 0 to 255"),
            (["settle", "LEASE", "--outcome", "overlod"],
             "--outcome: overlod not in {ignore,ok,overload}\n"),
            (["top", "--count", "0"], "--count: Value 0 not in range 1 to 1000000\n"),
            (["validate", "--merge-domains", "x"], "--merge-domains requires --envoy"),
        ):
            self.assert_refused(arguments, said)

    def test_invalid_token_is_not_printed_and_exits_2(self):
        with tempfile.TemporaryDirectory() as directory:
            tokens = pathlib.Path(directory) / "tokens"
            tokens.write_text("opensesame\nopensesame2\n", encoding="utf-8")
            for command in ("check", "bench"):
                server = (command, "shop", "--addr", "unix:/nonexistent/socket")
                for source, result in (
                    ("--token-file", run(*server, "--token-file", str(tokens))),
                    ("SLUICE_TOKEN", run(*server, environment={"SLUICE_TOKEN": "opensesame\n2"})),
                ):
                    self.assertEqual(result.returncode, 2, result.stderr)
                    said = f"^sluice: {source}: found no secret, or an invalid one; [^\n]*\n$"
                    self.assertRegex(result.stderr, said)
                    self.assertNotIn("opensesame", result.stderr)

    def test_only_commands_that_call_a_server_read_the_address_in_the_environment(self):
        wrong = {"SLUICE_ADDR": "nowhere"}
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "shop.yaml").write_text(RULES, encoding="utf-8")
            result = run("validate", directory, environment=wrong)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = run("check", "shop", environment=wrong)
        self.assertEqual(result.returncode, 2)
        self.assertIn('"nowhere" is not an address', result.stderr)

    def test_convert_prints_rules_or_mistakes(self):
        limit = "rate_limit: {unit: hour, requests_per_unit: 1}"
        domain = f"domain: d\ndescriptors: [{{key: %s, {limit}}}]\n"
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory) / "envoy"
            folder.mkdir()
            (folder / "a.yaml").write_text(domain % 'a, value: "x\\u2028\\u0085"', encoding="utf-8")
            result = run("convert", folder)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            rules = pathlib.Path(directory) / "own.yaml"
            rules.write_text(result.stdout, encoding="utf-8")
            self.assertEqual(run("validate", rules).stdout, "valid: 1 rule in 1 domain\n")
            (folder / "b.yaml").write_text(domain % "b", encoding="utf-8")
            result = run("convert", folder)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("b.yaml:1:9: domain: found \"d\", which", result.stderr)
            self.assertIn("  - name: b\n", run("convert", folder, "--merge-domains").stdout)
            (folder / "b.yaml").write_text(
                f"domain: e\ndescriptors: [{{key: a, descriptors: [{{key: a, {limit}}}]}}]\n",
                encoding="utf-8")
            result = run("convert", folder)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn('b.yaml:2:38: descriptors: found the key "a" twice', result.stderr)

    def test_error_without_a_server_says_how_to_start_one(self):
        for more in ((), ("--repeat", "3")):
            result = run("check", "shop", "--addr", "unix:/nonexistent/socket", *more)
            self.assertEqual(result.returncode, 2)
            self.assertIn("no server answers at unix:/nonexistent/socket", result.stderr)
            self.assertIn("scripts/run.sh", result.stderr)

    def test_with_flag_json_the_error_without_a_server_is_json(self):
        result = run("check", "shop", "--json", "--addr", "unix:/nonexistent/socket")
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "UNAVAILABLE")

    def test_help_names_commands_and_flags(self):
        self.assertIn("check", run("--help").stdout)
        text = run("check", "--help").stdout
        for flag in "addr timeout cost amount mode peek wait json repeat concurrency rate".split():
            self.assertIn(f"--{flag}", text)
        self.assertIn("hold", run("--help").stdout)
        text = run("hold", "--help").stdout
        for flag in "addr timeout cost amount wait kill-on-loss".split():
            self.assertIn(f"--{flag}", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
