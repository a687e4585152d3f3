"""`sluice check` sleeps for the wait in an answer, and sends --mode and --wait to the server.

Usage: sluice_wait_test.py SLUICE DIRECTORY_OF_GENERATED_MESSAGES
"""

import json
import threading
import time
import unittest

from fake_sluiced import FakeServer, allowed, pb, run, seconds

WAIT = 0.3


class WaitTest(unittest.TestCase):
    def setUp(self):
        self.server = FakeServer(self)

    def check(self, *arguments):
        """Runs `sluice check`. Returns the result, and the seconds from last answer to exit."""
        answered = []
        inner = self.server.check

        def answer(request):
            response = inner(request)
            answered.append(time.monotonic())
            return response

        self.server.check = answer
        result = run("check", "shop", "--addr", self.server.address, *arguments)
        return result, time.monotonic() - answered[-1]

    def test_one_check_sleeps_and_then_prints_the_wait(self):
        self.server.check = lambda _: allowed(wait=seconds(WAIT))
        result, slept = self.check("--wait", "60s")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(slept, WAIT)
        self.assertIn("waited 300 ms", result.stdout)
        self.assertEqual(self.server.requests("check")[0].max_wait, seconds(60))

    def test_json_of_one_check_is_the_response_of_the_api(self):
        self.server.check = lambda _: allowed(wait=seconds(WAIT))
        result, slept = self.check("--wait", "60s", "--json")
        self.assertGreaterEqual(slept, WAIT)
        self.assertEqual(json.loads(result.stdout)["wait"], "0.300s")

    def test_modes_and_costs_that_never_wait_do_not_sleep(self):
        self.server.check = lambda _: allowed(wait=seconds(3600))
        for arguments in (["--peek"], ["--cost", "0"], ["--mode", "charge"], ["--mode", "refund"]):
            result, _ = self.check("--wait", "2h", *arguments)  # fails if it takes over 60 s
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("start in 1 h", result.stdout)

    def test_check_without_flag_wait_does_not_sleep(self):
        self.server.check = lambda _: allowed(wait=seconds(3600))
        result, _ = self.check()
        self.assertIn("start in 1 h", result.stdout)
        self.assertFalse(self.server.requests("check")[0].HasField("max_wait"))

    def test_denied_check_does_not_sleep_and_exits_1(self):
        self.server.check = lambda _: pb.CheckLimitResponse(
            decision=pb.DECISION_DENIED, retry_after=seconds(3600)
        )
        result, _ = self.check("--wait", "60s")
        self.assertEqual(result.returncode, 1)
        self.assertIn("retry in 1 h", result.stdout)

    def reserve_every(self, interval):
        """Makes the server answer like a borrowing bucket with one token per `interval` seconds."""
        lock = threading.Lock()
        due = None

        def reserve(_):
            nonlocal due
            with lock:
                now = time.monotonic()
                due = now if due is None else max(due, now)
                wait, due = due - now, due + interval
            return allowed(wait=seconds(wait)) if wait > 0 else allowed()

        self.server.check = reserve

    def test_many_checks_follow_the_rate_of_a_borrowing_bucket(self):
        for callers in ("1", "4"):
            self.reserve_every(0.2)
            result, _ = self.check(
                "--wait", "60s", "--repeat", "6", "--concurrency", callers, "--json"
            )
            summary = json.loads(result.stdout)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(summary["allowed"], 6)
            self.assertEqual(summary["wait_us"]["count"], 5)
            self.assertGreater(summary["wait_us"]["total"], summary["wait_us"]["max"])
            # The last check is due 5 intervals after the first, and its caller sleeps until then.
            self.assertGreaterEqual(summary["seconds"], 1)

    def test_one_caller_of_many_checks_asks_again_only_after_its_wait(self):
        self.server.check = lambda _: allowed(wait=seconds(0.1))
        result, slept = self.check("--wait", "60s", "--repeat", "4")
        times = self.server.times("check")
        for earlier, later in zip(times, times[1:]):
            self.assertGreaterEqual(later - earlier, 0.1)
        self.assertGreaterEqual(slept, 0.1)
        self.assertRegex(result.stdout, r"(?m)^waits +4, 400 ms in all  p50 100 ms .* max 100 ms$")

    def test_many_checks_without_waits_print_no_line_of_waits(self):
        result, _ = self.check("--wait", "60s", "--repeat", "4")
        self.assertNotIn("waits", result.stdout)


class ModeTest(unittest.TestCase):
    def test_each_mode_is_sent(self):
        server = FakeServer(self)
        for arguments, mode in (
            ([], pb.MODE_CONSUME),
            (["--mode", "consume"], pb.MODE_CONSUME),
            (["--mode", "peek"], pb.MODE_PEEK),
            (["--peek"], pb.MODE_PEEK),
            (["--mode", "charge"], pb.MODE_CHARGE),
            (["--mode", "refund"], pb.MODE_REFUND),
        ):
            result = run(
                *("check", "shop", "--addr", server.address, "--timeout", "20s"),
                *("--cost", "7", *arguments),
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            request = server.requests("check")[-1]
            self.assertEqual((request.mode, request.cost), (mode, 7), arguments)

    def test_dropped_cost_is_shown(self):
        server = FakeServer(self)
        bucket = pb.ALGORITHM_TOKEN_BUCKET
        tokens = pb.LimitStatus(rule="tokens", algorithm=bucket, limit=10, dropped_cost=25)
        server.check = lambda _: allowed(limits=[tokens])
        result = run("check", "llm", "--mode", "charge", "--addr", server.address)
        self.assertIn("25 not charged", result.stdout)
        result = run("check", "llm", "--mode", "charge", "--addr", server.address, "--json")
        self.assertEqual(json.loads(result.stdout)["limits"][0]["droppedCost"], "25")

    def test_wrong_flags_exit_2(self):
        for arguments, said in (
            (["--mode", "borrow"], "--mode"),
            (["--mode", "charge", "--peek"], "--peek"),
            (["--wait", "5"], 'found "5"; allowed is a duration such as 250ms'),
        ):
            result = run("check", "shop", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
