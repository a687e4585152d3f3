"""`sluice hold`: the lease is held until the command has ended, even after failures.

Usage: sluice_hold_test.py SLUICE DIRECTORY_OF_GENERATED_MESSAGES
"""

import os
import pty
import select
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

from fake_sluiced import PATIENCE, SLUICE, Failure, FakeServer
from fake_sluiced import allowed, environment, in_turn, pb, run, seconds, start

UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE, "the store is down")
NOT_FOUND = Failure(grpc.StatusCode.NOT_FOUND, "expired")

FOR_EVER = "while :; do sleep 0.01; done"  # in shell


def slots(**fields):
    fields = {"units": 1} | fields
    return pb.LimitStatus(
        rule="exports", algorithm=pb.ALGORITHM_CONCURRENCY, limit=2, remaining=0, **fields
    )


def granted(ttl=0.3, **fields):
    lease = pb.Lease(id="a lease", ttl=seconds(ttl))
    return allowed(lease=lease, limits=[slots(admitted=True)], **fields)


def denied(retry_after):
    wait = seconds(retry_after)
    return pb.CheckLimitResponse(
        decision=pb.DECISION_DENIED, retry_after=wait, limits=[slots(retry_after=wait)]
    )


class HoldTest(unittest.TestCase):
    def setUp(self):
        self.server = FakeServer(self)
        self.server.check = lambda _: granted()

    def arguments(self, command, *flags):
        request = ("hold", "shop", "endpoint=/export", "--addr", self.server.address)
        return (*request, *flags, "--", *command)

    def hold(self, *command, flags=(), **options):
        return run(*self.arguments(command, *flags), **options)

    def start(self, *command, flags=(), **options):
        process = start(*self.arguments(command, *flags), **options)

        def end():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

        self.addCleanup(end)
        return process

    def finish(self, process, exit_status, given=None):
        stdout, stderr = process.communicate(given, timeout=PATIENCE)
        self.assertEqual(process.returncode, exit_status, stderr)
        return stdout, stderr

    def assert_released(self, times=1):
        leases = [request.lease_id for request in self.server.requests("release")]
        self.assertEqual(leases, ["a lease"] * times)


class LeaseTest(HoldTest):
    def test_exit_status_becomes_the_outcome_of_the_hold(self):
        ok, overload, ignore = 1, 2, 3
        for status, flags, outcome in (
            (0, (), ok),
            (75, (), overload),
            (124, (), overload),
            (1, (), ignore),
            (1, ("--overload-status", "1,7"), overload),
            (75, ("--overload-status", "1,7"), ignore),
        ):
            self.hold("sh", "-c", f"exit {status}", flags=flags)
            said = self.server.requests("release")[-1].hold_outcome
            self.assertEqual(said, outcome, (status, flags))

    def test_lease_is_renewed_while_the_command_runs_then_released(self):
        # The ttl is long, so that no renewal is late. A late renewal would be reported on stderr.
        self.server.check = lambda _: granted(ttl=3)
        self.server.renew = lambda _: pb.RenewLeaseResponse(ttl=seconds(3))
        process = self.start("cat")
        self.server.wait_for("renew", 2)
        self.assert_released(0)
        stdout, stderr = self.finish(process, 0, "as it came in\n")
        self.assertEqual((stdout, stderr), ("as it came in\n", ""))
        self.assert_released()
        self.assertEqual({r.lease_id for r in self.server.requests("renew")}, {"a lease"})

    def test_the_request_of_a_hold_has_the_given_fields(self):
        self.assertEqual(self.hold("true", flags=["--cost", "2", "--amount", "gpus=3"]).returncode, 0)
        (request,) = self.server.requests("check")
        self.assertEqual((request.domain, request.cost), ("shop", 2))
        self.assertEqual(dict(request.attributes), {"endpoint": "/export"})
        self.assertEqual(dict(request.amounts), {"gpus": 3})
        self.assertIn(request.mode, (pb.MODE_UNSPECIFIED, pb.MODE_CONSUME))
        self.assertFalse(request.HasField("max_wait"))

    def test_hold_exits_with_the_status_of_the_command(self):
        for command, status in (
            (["true"], 0),
            (["sh", "-c", "exit 7"], 7),
            (["sh", "-c", "kill -KILL $$"], 128 + 9),
            (["/nonexistent/command"], 127),
            (["no-such-command-in-path"], 127),
            (["/dev/null"], 126),
        ):
            result = self.hold(*command)
            self.assertEqual(result.returncode, status, (command, result.stderr))
            self.assert_released()
            self.server.calls.clear()
            if status in (126, 127):
                self.assertIn(f"sluice: {command[0]} cannot be run: ", result.stderr)
            else:
                self.assertEqual(result.stderr, "")

    def test_arguments_reach_the_command_untouched(self):
        result = self.hold("printf", "%s|", "--cost", "a b", "", "--", "x=1", "$HOME")
        self.assertEqual(result.stdout, "--cost|a b||--|x=1|$HOME|")
        result = self.hold("printf", "%s|", "[1,2]", "[]", "[abc]", "[", "{}", '["x"]')
        self.assertEqual(result.stdout, "[1,2]|[]|[abc]|[|{}|[\"x\"]|")

    def test_command_inherits_no_signal_settings_or_files_of_sluice(self):
        # Prints the blocked and ignored signals from 1 to 31, and the number of open files. Signals
        # 32 and 33 are left out, because glibc's posix_spawn lets the command ignore them.
        script = (
            "import os, re; print([int(n, 16) & 0x7fffffff for n in"
            " re.findall(r'Sig(?:Blk|Ign):\\s*(\\w+)', open('/proc/self/status').read())],"
            " len(os.listdir('/proc/self/fd')))"
        )
        command = ["/usr/bin/python3", "-c", script]
        alone = subprocess.run(command, capture_output=True, text=True, check=True)
        held = self.hold(*command)
        self.assertEqual(held.stdout, alone.stdout, held.stderr)

    def test_status_is_kept_if_the_parent_ignores_sigchld(self):
        result = self.hold(
            "sh", "-c", "exit 7", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        )
        self.assertEqual(result.returncode, 7, result.stderr)

    def test_lease_is_renewed_during_the_wait_and_then_the_command_starts(self):
        self.server.check = lambda _: granted(wait=seconds(0.5))
        result = self.hold("sh", "-c", "cat /proc/uptime")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(len(self.server.requests("renew")), 2)
        held = self.server.times("release")[0] - self.server.times("check")[0]
        self.assertGreaterEqual(held, 0.5)


class DeniedTest(HoldTest):
    def test_denial_says_when_to_retry_exits_1_and_runs_no_command(self):
        self.server.check = lambda _: denied(12)
        result = self.hold("echo", "ran")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(
            result.stderr, "sluice: DENIED  by exports (concurrency 0 of 2 left)  retry in 12 s\n"
        )
        self.assert_released(0)

    def test_with_flag_wait_hold_retries_until_granted(self):
        # The tool does not retry too often, but soon enough to get a slot that is released early.
        self.server.check = in_turn(denied(1e-6), denied(3600), granted())
        result = self.hold("echo", "ran", flags=["--wait", "60s"])
        self.assertEqual((result.returncode, result.stdout), (0, "ran\n"), result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 2, result.stderr)
        self.assertIn("trying for 1 min", result.stderr)
        first, second, third = self.server.times("check")
        self.assertGreaterEqual(second - first, 0.1)
        self.assertGreaterEqual(third - second, 1)
        waits = [r.max_wait.ToMicroseconds() / 1e6 for r in self.server.requests("check")]
        self.assertAlmostEqual(waits[0], 60, delta=5)
        self.assertLess(waits[2], 60 - 1)
        self.assert_released()

    def test_hold_denied_until_the_wait_ends_exits_1(self):
        self.server.check = lambda _: denied(3600)
        begun = time.monotonic()
        result = self.hold("echo", "ran", flags=["--wait", "900ms"])
        self.assertGreaterEqual(time.monotonic() - begun, 0.9)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        # One check at the start, one when the wait ends.
        self.assertEqual(len(self.server.requests("check")), 2)
        self.assertIn("retry in 1 h", result.stderr.splitlines()[-1])

    def test_denial_without_retry_after_is_not_retried(self):
        self.server.check = lambda _: pb.CheckLimitResponse(decision=pb.DECISION_DENIED)
        result = self.hold("echo", "ran", flags=["--wait", "60s"])
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("a retry cannot help", result.stderr)
        self.assertEqual(len(self.server.requests("check")), 1)


class NoLeaseTest(HoldTest):
    def test_if_no_concurrency_limit_applies_hold_exits_2_and_runs_no_command(self):
        window = pb.LimitStatus(rule="pay", algorithm=pb.ALGORITHM_FIXED_WINDOW, admitted=True)
        no_rule = pb.CheckLimitResponse(decision=pb.DECISION_ALLOWED, source=pb.SOURCE_NO_RULE)
        uncounted = slots(admitted=True, units=0)  # the limit counts an amount that was not given
        for answer in (allowed(limits=[window]), allowed(limits=[uncounted]), no_rule):
            self.server.check = in_turn(answer)
            result = self.hold("echo", "ran")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("no concurrency limit applies", result.stderr)
            self.assertIn("sluice explain shop endpoint=/export\n", result.stderr)
            self.assertIn("Other limits:   --lease-ttl 60s holds their units\n", result.stderr)

    def test_with_lease_ttl_if_no_limit_takes_units_hold_exits_2_and_runs_no_command(self):
        self.server.check = in_turn(allowed(limits=[slots(admitted=True, units=0)]))
        result = self.hold("echo", "ran", flags=["--lease-ttl", "60s"])
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("no limit applies, or those that apply count an amount", result.stderr)
        self.assertNotIn("Other limits", result.stderr)

    def test_command_runs_without_a_lease_if_answer_is_unlimited_or_shadow_or_fallback(self):
        unlimited = pb.CheckLimitResponse(decision=pb.DECISION_ALLOWED, source=pb.SOURCE_RULE)
        shadow = allowed(limits=[slots(shadow=True)])
        fallback = pb.CheckLimitResponse(
            decision=pb.DECISION_ALLOWED, source=pb.SOURCE_FALLBACK, limits=[slots(admitted=True)]
        )
        for answer, said in ((unlimited, ""), (shadow, ""), (fallback, "the store failed")):
            self.server.check = in_turn(answer)
            result = self.hold("sh", "-c", "echo ran; exit 7")
            self.assertEqual((result.returncode, result.stdout), (7, "ran\n"), result.stderr)
            self.assertIn(said, result.stderr)
            self.assertEqual(bool(said), bool(result.stderr))
        self.assert_released(0)

    def test_error_exits_2_and_runs_no_command(self):
        self.server.check = in_turn(Failure(grpc.StatusCode.INVALID_ARGUMENT, "domain is empty"))
        result = self.hold("echo", "ran")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(result.stderr, "sluice: INVALID_ARGUMENT: domain is empty\n")
        result = run("hold", "shop", "--addr", "unix:/nonexistent/socket", "--", "echo", "ran")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("no server answers", result.stderr)

    def test_usage_in_anything_but_a_regular_file_is_refused_before_anything_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = f"{folder}/pipe"
            os.mkfifo(pipe)
            for path in (pipe, folder, "/dev/null"):
                flags = ("--lease-ttl", "60s", "--settle-from", path)
                result = self.hold("echo", "ran", flags=flags)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn(
                    f"--settle-from: {path} is not a regular file; allowed is a regular file",
                    result.stderr,
                )
        self.assertEqual(self.server.requests("check"), [])

    def test_missing_command_or_domain_exits_2(self):
        for arguments, missing in (
            (["shop"], "COMMAND"),
            (["shop", "--"], "COMMAND"),
            (["shop", "echo"], "COMMAND"),  # the -- is missing
            (["--", "echo"], "DOMAIN"),
        ):
            result = run("hold", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(f"{missing} is required", result.stderr)


class SignalTest(HoldTest):
    def started(self, script, **options):
        """Starts `sluice hold` with a shell script. Returns when the script has printed a line."""
        process = self.start("sh", "-c", script, **options)
        self.first_line = process.stdout.readline()
        self.assertNotEqual(self.first_line, "")
        return process

    def test_signal_is_passed_on_and_the_command_sets_the_exit_status(self):
        for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
            self.server.calls.clear()
            script = f"trap 'echo {name}; exit 5' {name}; echo ready; {FOR_EVER}"
            process = self.started(script)
            process.send_signal(signal.Signals[f"SIG{name}"])
            stdout, _ = self.finish(process, 5)
            self.assertEqual(stdout, f"{name}\n")
            self.assert_released()

    def test_command_killed_by_a_signal_exits_128_plus_the_signal(self):
        for name in ("HUP", "INT", "TERM"):
            self.server.calls.clear()
            number = signal.Signals[f"SIG{name}"]
            process = self.started("echo ready; exec sleep 60")
            process.send_signal(number)
            self.finish(process, 128 + number)
            self.assert_released()

    def test_signal_reaches_child_processes_of_the_command(self):
        # The child keeps stdout open, so `finish` waits until the child has ended.
        process = self.started("sleep 60 & echo ready; wait")
        process.send_signal(signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)

    def test_lease_is_held_until_the_command_has_ended(self):
        script = f"trap 'echo ending; read line; exit 5' TERM; echo ready; {FOR_EVER}"
        process = self.started(script)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "ending\n")
        self.server.wait_for("renew", len(self.server.requests("renew")) + 2)
        self.assert_released(0)
        self.finish(process, 5, "\n")
        self.assert_released()

    def test_signal_while_waiting_for_a_slot_ends_the_hold(self):
        self.server.check = lambda _: denied(3600)
        process = self.start("echo", "ran", flags=["--wait", "1h"])
        self.server.wait_for("check", 2)
        process.send_signal(signal.SIGTERM)
        stdout, _ = self.finish(process, 128 + signal.SIGTERM)
        self.assertEqual(stdout, "")

    def test_signal_while_waiting_to_start_releases_the_lease(self):
        self.server.check = lambda _: granted(wait=seconds(3600))
        process = self.start("echo", "ran")
        self.server.wait_for("renew", 1)
        process.send_signal(signal.SIGINT)
        stdout, _ = self.finish(process, 128 + signal.SIGINT)
        self.assertEqual(stdout, "")
        self.assert_released()

    def test_signal_before_the_grant_arrives_releases_the_lease(self):
        signaled = threading.Event()

        def answer(_):
            signaled.wait(PATIENCE)
            return granted()

        self.server.check = answer
        process = self.start("echo", "ran", flags=["--timeout", "60s"])
        self.server.wait_for("check")
        process.send_signal(signal.SIGTERM)
        signaled.set()
        stdout, _ = self.finish(process, 128 + signal.SIGTERM)
        self.assertEqual(stdout, "")
        self.assert_released()

    def test_sighup_stays_ignored_as_under_nohup(self):
        def answer(_):
            process.send_signal(signal.SIGHUP)
            return granted() if len(self.server.requests("check")) > 1 else denied(0.1)

        deaf = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
        ready = threading.Event()
        self.server.check = lambda request: ready.wait(PATIENCE) and answer(request)
        process = self.start("echo", "ran", flags=["--wait", "60s"], preexec_fn=deaf)
        ready.set()
        stdout, _ = self.finish(process, 0)
        self.assertEqual(stdout, "ran\n")


class TerminalTest(HoldTest):
    def start_at_terminal(self, script):
        """Starts `sluice hold` with a shell script, in the foreground of a new terminal."""
        process, terminal = pty.fork()
        if process == 0:
            os.execve(SLUICE, [SLUICE, *self.arguments(["sh", "-c", script])], environment())
        self.addCleanup(os.close, terminal)
        self.read_until(terminal, "ready")
        return process, terminal

    def read_until(self, terminal, text):
        shown = ""
        while text not in shown:
            if not select.select([terminal], [], [], PATIENCE)[0]:
                raise AssertionError(f"timed out while waiting for {text!r} after {shown!r}")
            shown += os.read(terminal, 1000).decode()
        return shown

    def assert_ends(self, process, exit_status):
        _, status = os.waitpid(process, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), exit_status)
        self.assert_released()

    def test_ctrl_c_reaches_the_command_once_and_the_command_can_read_the_terminal(self):
        process, terminal = self.start_at_terminal(
            "trap 'echo GOT INT' INT; echo ready; while ! read line; do :; done; echo read $line"
        )
        os.write(terminal, b"\x03")  # Ctrl-C
        shown = self.read_until(terminal, "GOT INT")
        os.write(terminal, b"a line\n")
        shown += self.read_until(terminal, "read a line")
        self.assertEqual(shown.count("GOT INT"), 1, shown)
        self.assert_ends(process, 0)

    def test_signal_sent_only_to_sluice_is_passed_on(self):
        process, _ = self.start_at_terminal(f"trap 'exit 5' TERM; echo ready; {FOR_EVER}")
        os.kill(process, signal.SIGTERM)
        self.assert_ends(process, 5)


class TroubleTest(HoldTest):
    def test_failed_and_resumed_renewals_are_printed_once(self):
        self.server.check = lambda _: granted(ttl=3)
        ok = pb.RenewLeaseResponse(ttl=seconds(1))
        self.server.renew = in_turn(UNAVAILABLE, UNAVAILABLE, ok)
        process = self.start("cat")
        self.server.wait_for("renew", 5)
        stdout, stderr = self.finish(process, 0, "still there")
        self.assertEqual(stdout, "still there")
        lines = stderr.splitlines()
        self.assertEqual(len(lines), 2, stderr)
        self.assertRegex(lines[0], r"^sluice: the lease cannot be renewed, and is valid for .* more ")
        self.assertIn("UNAVAILABLE: the store is down", lines[0])
        self.assertEqual(lines[1], "sluice: the lease is renewed again")
        self.assert_released()

    def test_lost_lease_is_printed_once_and_the_command_continues(self):
        self.server.renew = in_turn(NOT_FOUND)
        process = self.start("cat")
        line = process.stderr.readline()
        self.assertEqual(
            line, "sluice: the lease is lost: another caller may have its slot (NOT_FOUND: expired)\n"
        )
        stdout, stderr = self.finish(process, 0, "still there")
        self.assertEqual((stdout, stderr), ("still there", ""))
        self.assertEqual(len(self.server.requests("renew")), 1)

    def test_kill_on_loss_ends_the_command(self):
        # NOT_FOUND: the lease has expired. UNAVAILABLE: no renewal succeeds within the ttl.
        for trouble in (NOT_FOUND, UNAVAILABLE):
            self.server.renew = in_turn(trouble)
            process = self.start("sleep", "60", flags=["--kill-on-loss"])
            _, stderr = self.finish(process, 128 + signal.SIGTERM)
            self.assertIn("another caller may have its slot", stderr)

    def test_lease_is_released_although_stderr_is_closed(self):
        self.server.renew = in_turn(UNAVAILABLE, pb.RenewLeaseResponse(ttl=seconds(0.3)), NOT_FOUND)
        read_end, write_end = os.pipe()
        os.close(read_end)
        process = self.start("cat", stderr=write_end)
        os.close(write_end)
        self.server.wait_for("renew", 3)
        self.finish(process, 0, "")
        self.assert_released()

    def test_status_is_kept_if_the_release_fails(self):
        self.server.release = in_turn(UNAVAILABLE)
        result = self.hold("sh", "-c", "exit 7")
        self.assertEqual(result.returncode, 7)
        self.assertIn("could not be released, and will expire", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
