"""`sluice bench` against a real `sluiced`: every kind of RPC, denials and errors.

Usage: sluice_bench_test.py SLUICE SLUICED
"""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SLUICE, SLUICED = sys.argv.pop(1), sys.argv.pop(1)

# The limit of `few` does not reset while the test runs.
RULES = """
domain: shop
rules:
  - name: plenty
    match: {endpoint: /plenty}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000}]
  - name: few
    match: {endpoint: [/few, /other]}
    per: [endpoint, user]
    limits: [{algorithm: fixed_window, limit: 10, window: 1d}]
"""

FIELDS = (
    "rpc checks_per_message keys distribution loop in_flight target_rate connections seconds checks"
    " allowed denied failed errors lost sources checks_per_second latency_us wait_us client_cpu_us_per_check"
).split()


def run(*arguments):
    return subprocess.run(
        [SLUICE, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def folder_with_rules(test_class):
    """Makes a folder with RULES, which is removed after the tests of the class."""
    directory = tempfile.TemporaryDirectory()
    test_class.addClassCleanup(directory.cleanup)
    folder = pathlib.Path(directory.name)
    (folder / "rules").mkdir()
    (folder / "rules" / "shop.yaml").write_text(RULES, encoding="utf-8")
    return folder


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = folder_with_rules(cls)
        cls.address = f"unix:{folder}/grpc.sock"
        server = subprocess.Popen(
            [SLUICED, "--rules", folder / "rules", "--grpc", cls.address, "--http", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
        )
        cls.addClassCleanup(server.wait, 20)
        cls.addClassCleanup(server.terminate)
        deadline = time.monotonic() + 20
        while run("check", "shop", "--addr", cls.address).returncode == 2:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("sluiced does not answer")

    def bench(self, endpoint, *arguments):
        return run(
            *("bench", "shop", f"endpoint={endpoint}", "--addr", self.address),
            *("--duration", "200ms", "--timeout", "10s", *arguments),
        )

    def summary(self, *arguments, status=0):
        result = self.bench(*arguments, "--json")
        self.assertEqual(result.returncode, status, result.stderr)
        summary = json.loads(result.stdout)
        self.assertEqual(list(summary), FIELDS)
        self.assertEqual(list(summary["latency_us"]), ["p50", "p90", "p99", "p99.9", "max"])
        self.assertEqual(
            summary["checks"], summary["allowed"] + summary["denied"] + summary["failed"]
        )
        self.assertEqual(
            sum(summary["sources"].values()), summary["allowed"] + summary["denied"]
        )
        return summary

    def test_every_rpc_allows_every_check(self):
        for rpc, checks in (("unary", 1), ("batch", 100), ("stream", 16)):
            summary = self.summary("/plenty", "--rpc", rpc, "--keys", "1000")
            self.assertEqual((summary["rpc"], summary["checks_per_message"]), (rpc, checks))
            self.assertEqual(
                [summary[name] for name in ("loop", "in_flight", "target_rate", "connections")],
                ["closed", 64, 0, 8],
            )
            self.assertGreaterEqual(summary["allowed"], 64 * checks)
            self.assertEqual(summary["denied"] + summary["failed"], 0)
            self.assertEqual(summary["sources"], {"STORE": summary["allowed"]})
            self.assertGreaterEqual(summary["seconds"], 0.15)
            rate = summary["checks"] / summary["seconds"]
            self.assertAlmostEqual(summary["checks_per_second"] / rate, 1, places=3)
            self.assertGreater(summary["client_cpu_us_per_check"], 0)
            quantiles = list(summary["latency_us"].values())
            self.assertEqual(quantiles, sorted(quantiles))
            self.assertGreater(quantiles[0], 0)

    def test_one_key_is_denied_after_its_limit_is_reached(self):
        # All three runs use the same user, and the first run reaches the limit.
        for rpc, allowed in (("unary", 10), ("batch", 0), ("stream", 0)):
            summary = self.summary("/few", "--rpc", rpc)
            self.assertEqual(summary["allowed"], allowed, rpc)
            self.assertGreater(summary["denied"], 100)
            self.assertEqual(summary["failed"], 0)

    def test_each_key_has_its_own_limit(self):
        # Each of the 20 users sends at least ten checks. Each user's first ten are allowed.
        summary = self.summary("/other", "--keys", "20", "--rpc", "batch", "--checks", "1000")
        self.assertEqual(summary["allowed"], 200)
        self.assertEqual((summary["keys"], summary["checks_per_message"]), (20, 1000))

    def test_open_loop_keeps_its_rate(self):
        summary = self.summary("/plenty", "--rate", "1000", "--warm-up", "50ms")
        self.assertEqual((summary["loop"], summary["target_rate"]), ("open", 1000))
        self.assertEqual((summary["in_flight"], summary["allowed"]), (0, 200))

    def test_summary_is_a_readable_table(self):
        result = self.bench("/plenty", "--threads", "2", "--distribution", "zipf", "--keys", "50")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^checks   \d+ in .* \(\d+/s\)$")
        self.assertRegex(result.stdout, r"(?m)^errors   0$")
        self.assertRegex(result.stdout, r"(?m)^sources  STORE \d+$")
        self.assertRegex(result.stdout, r"(?m)^latency  p50 .+  p90 .+  p99 .+  p99\.9 .+  max .+$")
        self.assertRegex(result.stdout, r"(?m)^client   \d.* us of CPU a check, threads \d+ % busy$")

    def test_interrupted_run_prints_the_results_so_far(self):
        process = subprocess.Popen(
            [SLUICE, "bench", "shop", "endpoint=/plenty", "--addr", self.address]
            + ["--duration", "1h", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertRegex(process.stderr.readline(), r"^1 of 3600 s: \d+ allowed, 0 denied, 0 errors")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0)
        self.assertGreater(json.loads(output)["allowed"], 0)

    def test_refusals_of_the_server_are_counted_by_code_and_bench_exits_2(self):
        for rpc in ("unary", "batch", "stream"):
            result = run(
                *("bench", "", "--addr", self.address, "--duration", "100ms", "--rpc", rpc),
                "--json",
            )
            summary = json.loads(result.stdout)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(list(summary["errors"]), ["INVALID_ARGUMENT"])
            self.assertEqual(summary["errors"]["INVALID_ARGUMENT"]["count"], summary["checks"])
            self.assertGreater(summary["failed"], 0)
        text = run("bench", "", "--addr", self.address, "--duration", "100ms").stdout
        self.assertRegex(text, r"(?m)^ +\d+ INVALID_ARGUMENT, the first: .*domain")


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = folder_with_rules(cls)
        cls.certificate = folder / "server.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
            + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
            + ["-out", cls.certificate, "-keyout", folder / "key.pem"],
            check=True,
            capture_output=True,
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            cls.address = f"localhost:{probe.getsockname()[1]}"
        server = subprocess.Popen(
            [SLUICED, "--rules", folder / "rules", "--grpc", cls.address, "--http", "127.0.0.1:0"]
            + ["--tls-certificate", cls.certificate, "--tls-key", folder / "key.pem"],
            stdin=subprocess.DEVNULL,
        )
        cls.addClassCleanup(server.wait, 20)
        cls.addClassCleanup(server.terminate)
        deadline = time.monotonic() + 20
        while cls.check("--tls-ca", cls.certificate).returncode == 2:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("sluiced does not answer")

    @classmethod
    def check(cls, *arguments):
        return run("check", "shop", "endpoint=/plenty", "user=1", "--addr", cls.address, *arguments)

    def test_single_checks_many_checks_and_bench_work_over_tls(self):
        trusted = ("--tls-ca", self.certificate)
        self.assertEqual(self.check(*trusted).returncode, 0)
        self.assertEqual(self.check(*trusted, "--repeat", "50", "--concurrency", "4").returncode, 0)
        bench = run(
            *("bench", "shop", "endpoint=/plenty", "--addr", self.address, *trusted),
            *("--duration", "200ms", "--timeout", "10s", "--json"),
        )
        self.assertEqual(bench.returncode, 0, bench.stderr)
        self.assertGreater(json.loads(bench.stdout)["allowed"], 0)

    def test_untrusted_certificate_is_an_error(self):
        for repeat in ("1", "2"):
            result = self.check("--tls", "--repeat", repeat)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("certificate", result.stderr.lower())

    def test_files_that_cannot_be_read_are_named(self):
        for repeat in ("1", "2"):
            for flag in ("--tls-ca", "--token-file"):
                result = self.check(flag, "/nonexistent", "--repeat", repeat)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertIn("/nonexistent", result.stderr)


class ArgumentTest(unittest.TestCase):
    def test_wrong_arguments_are_named_and_exit_2(self):
        for arguments, said in (
            ([], "DOMAIN is required"),
            (["shop", "user"], 'attribute "user": expected KEY=VALUE'),
            (["shop", "user=42"], '--key: user varies, but is also given as "user=42"'),
            (["shop", "--rpc", "nonsense"], "--rpc"),
            (["shop", "--checks", "16"], "--checks: 16 with --rpc unary, which allows only 1"),
            (["shop", "--rpc", "batch", "--checks", "1001"], "--checks"),
            (["shop", "--keys", "0"], "--keys"),
            (["shop", "--keys", "9000001"], "--keys"),
            (["shop", "--distribution", "normal"], "--distribution"),
            (["shop", "--exponent", "0"], "--exponent"),
            (["shop", "--exponent", "nan"], "nan: expected a number from 0.01 to 10"),
            (["shop", "--exponent", "2"], "--exponent: 2 with --distribution uniform"),
            (["shop", "--rate", "0"], "--rate"),
            (["shop", "--rate", "NaN"], "NaN: expected a number from 0.001 to"),
            (["shop", "--rate", "5", "--in-flight", "5"], "--rate excludes --in-flight"),
            (["shop", "--threads", "9"], "--threads: 9 with --connections 8"),
            (["shop", "--duration", "3"], 'found "3"; allowed is a duration such as 250ms'),
            (["shop", "--addr", "nowhere"], '"nowhere" is not an address'),
        ):
            result = run("bench", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(said, result.stderr, arguments)
            self.assertEqual(result.stdout, "", arguments)

    def test_error_without_a_server_says_how_to_start_one(self):
        result = run("bench", "shop", "--addr", "unix:/nonexistent/socket", "--json")
        self.assertEqual(result.returncode, 2)
        self.assertIn(
            "no server answers at unix:/nonexistent/socket (No such file or directory)",
            result.stderr,
        )
        self.assertIn("scripts/run.sh", result.stderr)
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "UNAVAILABLE")

    def test_help_names_every_flag(self):
        self.assertIn("bench", run("--help").stdout)
        text = run("bench", "--help").stdout
        for flag in (
            "addr timeout tls tls-ca tls-certificate tls-key tls-server-name token-file rpc checks key keys distribution exponent rate in-flight connections"
            " threads duration warm-up json"
        ).split():
            self.assertIn(f"--{flag} ", text.replace("\n", " "))


if __name__ == "__main__":
    unittest.main(verbosity=2)
