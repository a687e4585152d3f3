"""Tests of the performance report with invented measurements: medians, ratios, void rows, the
output of generators, processes, and the command line.

Usage: report_test.py
"""

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
import types
import unittest
from collections import Counter
from unittest import mock

REPORT = pathlib.Path(__file__).resolve().parent / "report"
sys.path.insert(0, str(REPORT))

import cases  # noqa: E402  (these need the path above)
import loads  # noqa: E402
import machine  # noqa: E402
import processes  # noqa: E402
import raw  # noqa: E402
import rows  # noqa: E402
from cores import Cores  # noqa: E402
from rounds import run_rounds  # noqa: E402
from sample import ADMITTED, DENIED, Answers, Sample  # noqa: E402
from table import FORMATS, line_of, markdown  # noqa: E402

ROW = rows.throughput("unary", "unary", "noop", rows.at_least(0.8))


def rates(**by_case):
    """Rounds whose samples have only the throughput."""
    count = len(next(iter(by_case.values())))
    return [{case: Sample({"per_second": values[i]}) for case, values in by_case.items()}
            for i in range(count)]


def answers(allowed=0, denied=0, errors=(), **sources):
    return Answers(allowed, denied, Counter(dict(errors)), Counter(sources))


class ArithmeticTest(unittest.TestCase):
    def test_shows_the_median_of_values_and_of_ratios_within_rounds(self):
        # The ratio of the medians is 0.8; the ratios of the rounds are 0.5, 0.9 and 0.6.
        line = line_of(ROW, rates(unary=[100, 90, 30], noop=[200, 100, 50]))
        self.assertEqual(line.value, 90)
        self.assertEqual(line.compared, 0.6)
        self.assertAlmostEqual(line.spread, (0.9 - 0.5) / 0.6)

    def test_the_median_of_four_rounds_is_the_mean_of_the_middle_two(self):
        line = line_of(ROW, rates(unary=[100, 60, 90, 80], noop=[100] * 4))
        self.assertEqual(line.value, 85)
        self.assertAlmostEqual(line.compared, 0.85)

    def test_judges_the_ratio_if_there_is_one(self):
        self.assertEqual(line_of(ROW, rates(unary=[80], noop=[100])).verdict, "met")
        self.assertEqual(line_of(ROW, rates(unary=[79], noop=[100])).verdict, "missed")

    def test_judges_the_value_if_there_is_no_ratio(self):
        def verdict(target, value):
            row = rows.Row("x", ("x",), rows.figure("x", "bytes"), "B", target=target)
            return line_of(row, [{"x": Sample({"bytes": value})}]).verdict

        self.assertEqual(verdict(rows.at_most(180), 180), "met")
        self.assertEqual(verdict(rows.at_most(180), 181), "missed")
        self.assertEqual(verdict(rows.Target("<", 10), 10), "missed")
        self.assertEqual(verdict(None, 10), "")

    def test_cpu_is_for_a_million_checks(self):
        used = {"server_cpu": 0.5, "redis_cpu": 0.25, "generator_cpu": 0.125, "script_calls": 7}
        self.assertEqual(loads.figures_of(used, 50_000), {
            "per_second": 50_000, "server_cpu": 10, "redis_cpu": 5, "generator_cpu": 2.5,
            "script_calls": 7})

    def test_cpu_shown_is_the_median_of_the_first_case(self):
        rounds = [{"unary": Sample({"per_second": 1, "server_cpu": cpu}),
                   "noop": Sample({"per_second": 1, "server_cpu": 100})} for cpu in (3, 9, 4)]
        self.assertEqual(line_of(ROW, rounds).cpu, {"server_cpu": 4})

    def test_sources_are_shares_of_all_checks(self):
        rounds = rates(unary=[1, 1], noop=[1, 1])
        rounds[0]["unary"].sources = {"STORE": 1, "DENY_CACHE": 9}
        rounds[1]["unary"].sources = {"DENY_CACHE": 30}
        self.assertEqual(line_of(ROW, rounds).sources, {"DENY_CACHE": 0.975, "STORE": 0.025})

    def test_added_latency_is_compared_with_the_round_trip(self):
        row = next(row for row in rows.ROWS if {"one caller", "raw round trip"} <= set(row.cases))
        p50 = {"one caller": 180, "noop http2, one caller": 100, "raw round trip": 70}
        line = line_of(row, [{case: Sample({"p50": value}) for case, value in p50.items()}])
        self.assertEqual((line.value, line.compared, line.verdict), (80, 10, "met"))


class VoidTest(unittest.TestCase):
    def test_a_fault_in_any_case_of_a_row_voids_the_row(self):
        for case in ("unary", "noop"):
            rounds = rates(unary=[90, 90, 90], noop=[100, 100, 100])
            rounds[1][case].faults.append("3 failed: UNAVAILABLE")
            line = line_of(ROW, rounds)
            self.assertEqual(line.verdict, f"void: {case}: 3 failed: UNAVAILABLE")
            self.assertTrue(line.is_void)

    def test_a_fault_in_another_case_does_not_void_the_row(self):
        rounds = rates(unary=[90], noop=[100], batch=[1])
        rounds[0]["batch"].faults.append("3 failed: UNAVAILABLE")
        self.assertEqual(line_of(ROW, rounds).verdict, "met")

    def test_a_failed_case_keeps_the_other_rounds(self):
        rounds = rates(unary=[90, 70], noop=[100, 100])
        rounds[0]["noop"] = Sample({}, faults=["no such program"])
        line = line_of(ROW, rounds)
        self.assertEqual((line.value, line.verdict), (70, "void: noop: no such program"))
        line = line_of(ROW, rounds[:1])
        self.assertEqual((line.value, line.compared, line.spread), (None, None, None))

    def test_answers_as_expected_have_no_fault(self):
        self.assertEqual(ADMITTED.faults_of(answers(allowed=5, STORE=5)), [])
        self.assertEqual(DENIED.faults_of(answers(denied=5, STORE=1, DENY_CACHE=4)), [])

    def test_each_unexpected_answer_is_a_fault(self):
        for fault, expected, heard in (
            ("2 failed: UNAVAILABLE", ADMITTED,
             answers(allowed=5, STORE=5, errors={"UNAVAILABLE": 2})),
            ("1 decided by FALLBACK", ADMITTED, answers(allowed=5, STORE=4, FALLBACK=1)),
            ("5 decided by DENY_CACHE", ADMITTED, answers(allowed=5, DENY_CACHE=5)),
            ("1 denied", ADMITTED, answers(allowed=4, denied=1, STORE=5)),
            ("1 allowed", DENIED, answers(allowed=1, denied=4, DENY_CACHE=5)),
            ("none allowed", ADMITTED, answers()),
            ("none denied", DENIED, answers()),
        ):
            self.assertEqual(expected.faults_of(heard), [fault])


class TableTest(unittest.TestCase):
    def test_is_markdown_with_one_line_per_row(self):
        rounds = rates(unary=[90_000], noop=[100_000])
        rounds[0]["unary"].sources = {"STORE": 3, "DENY_CACHE": 1}
        header, _, row = markdown([ROW], [line_of(ROW, rounds)]).splitlines()
        self.assertEqual(
            row, "| unary | 90,000/s | 0.90 × | 0% | ≥ 0.80 × | met |  |  |  | "
            "STORE 75.000%, DENY_CACHE 25.000% |")
        self.assertEqual(header.count("|"), row.count("|"))

    def test_a_fault_keeps_the_table_valid(self):
        rounds = rates(unary=[90], noop=[100])
        rounds[0]["noop"].faults.append("no | such\nprogram")
        last = markdown([ROW], [line_of(ROW, rounds)]).splitlines()[-1]
        self.assertIn("| void: noop: no / such program |", last)

    def test_rows_are_computed_from_their_cases_and_use_every_case(self):
        for known, table in ((cases.CASES, rows.ROWS), (cases.VERSUS_CASES, rows.VERSUS_ROWS)):
            used = set()
            for row in table:
                samples = {case: Sample(dict.fromkeys(
                    ("per_second", "per_second_before", "p50", "p99", "p99.9", "server_cpu", "redis_cpu",
                     "script_calls", "counter_bytes", "resident", "start", "idle_cpu"), 1.0))
                    for case in row.cases}
                self.assertIsNotNone(line_of(row, [samples]).value, row.title)
                self.assertLessEqual({row.unit, row.compared_unit}, set(FORMATS))
                used.update(row.cases)
            self.assertEqual(used, set(known))
            self.assertEqual(len({row.title for row in table}), len(table))


class GeneratorTest(unittest.TestCase):
    """The generator is a shell script that prints the output that a test needs."""

    def run_generator(self, output):
        script = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "sluice")
        script.write_text(f"#!/bin/sh\ncat <<'TEXT'\n{output}\nTEXT\n")
        script.chmod(0o755)
        server = types.SimpleNamespace(address="a", used=lambda: {"server_cpu": 0.0})
        with mock.patch("time.sleep"):
            return loads.run_sluice_bench(script, loads.Load(rate=100), server, seconds=1)

    def result(self, **changed):
        return json.dumps({
            "allowed": 7, "denied": 0, "errors": {}, "sources": {"STORE": 7},
            "checks_per_second": 100.0, "target_rate": 100, "client_cpu_us_per_check": 4.2,
            "latency_us": {"p50": 50, "p90": 90, "p99": 99, "p99.9": 100, "max": 101}} | changed)

    def test_the_output_becomes_the_sample(self):
        sample = self.run_generator(self.result())
        self.assertEqual((sample.sources, sample.faults), ({"STORE": 7}, []))
        self.assertEqual([sample[name] for name in ("per_second", "p50", "p99", "generator_cpu")],
                         [100, 50, 99, 4.2])

    def test_a_missed_rate_is_a_fault(self):
        sample = self.run_generator(self.result(checks_per_second=90.0))
        self.assertEqual(sample.faults, ["90 checks a second instead of 100"])

    def test_errors_are_faults(self):
        sample = self.run_generator(
            self.result(errors={"UNAVAILABLE": {"count": 2, "first": "down"}})
        )
        self.assertEqual(sample.faults, ["2 failed: UNAVAILABLE"])

    def test_a_case_without_answers_fails(self):
        for output in (self.result(checks_per_second=0.0), '{"error": "no server answers"}'):
            with self.assertRaisesRegex(RuntimeError, "nothing was answered"):
                self.run_generator(output)


class RoundsTest(unittest.TestCase):
    def run_rounds(self, count, **wanted):
        said = []
        near = types.SimpleNamespace(when_near=lambda measure: measure())
        stage = types.SimpleNamespace(say=said.append, cores=near)
        return run_rounds(wanted, count, stage), said

    def test_every_other_round_is_reversed(self):
        order = []

        def case(name):
            def run(_):
                order.append(name)
                return Sample({"per_second": len(order)})
            return run

        rounds, said = self.run_rounds(3, a=case("a"), b=case("b"))
        self.assertEqual("".join(order), "ab" "ba" "ab")
        self.assertEqual([each["b"]["per_second"] for each in rounds], [2, 3, 6])
        self.assertEqual(len(said), 6)

    def test_a_failed_case_does_not_end_the_report(self):
        def breaks(_):
            raise RuntimeError("no such program")

        rounds, _ = self.run_rounds(1, a=breaks, b=lambda _: Sample({"per_second": 1}))
        self.assertEqual(rounds[0]["a"].faults, ["no such program"])
        self.assertEqual(rounds[0]["b"]["per_second"], 1)


class CoresTest(unittest.TestCase):
    def cores(self, *ways, count=2, patience=10):
        """Cores with the given distances, in nanoseconds, one for each query."""
        ways = iter(ways)

        def ask(*_, **__):
            way = next(ways)
            if isinstance(way, Exception):
                raise way
            return types.SimpleNamespace(stdout=f"{way}\n")

        for patch in (mock.patch("cores.subprocess.run", ask), mock.patch("cores.time.sleep"),
                      mock.patch("cores.PATIENCE", patience)):
            patch.start()
            self.addCleanup(patch.stop)
        return Cores("core_distance", count)

    def measure(self, cores):
        """Returns the number of the attempt whose result is used; the first is 0."""
        tries = iter(range(9))
        return cores.when_near(lambda: next(tries))

    def test_a_measurement_on_near_cores_is_kept(self):
        cores = self.cores(40, 35)
        self.assertEqual(self.measure(cores), 0)
        self.assertEqual(list(cores.notes()), [])

    def test_waits_until_the_cores_are_near(self):
        cores = self.cores(160, 160, 40, 40)
        self.assertEqual(self.measure(cores), 0)
        self.assertEqual((cores.repeated, cores.kept), (0, 0))

    def test_a_measurement_that_ends_on_distant_cores_is_repeated(self):
        cores = self.cores(40, 160, 170, 41, 39)
        self.assertEqual(self.measure(cores), 1)
        self.assertEqual((cores.repeated, cores.kept), (1, 0))
        self.assertIn("took 170 ns", *cores.notes())

    def test_without_patience_measurements_on_distant_cores_are_kept_and_reported(self):
        cores = self.cores(*[160] * 9, patience=2)
        self.assertEqual(self.measure(cores), 0)
        self.assertEqual(self.measure(cores), 0)
        self.assertEqual((cores.repeated, cores.kept), (0, 2))
        self.assertIn("2 were kept", *cores.notes())

    def test_repetitions_end_although_the_cores_always_move(self):
        cores = self.cores(*[40, 160] * 9)
        with mock.patch("cores.time.monotonic", side_effect=range(0, 900, 3)):
            self.assertEqual(self.measure(cores), 3)
        self.assertEqual((cores.repeated, cores.kept), (3, 1))

    def test_a_failed_query_of_the_distance_does_not_fail_the_measurement(self):
        cores = self.cores(OSError("no such program"), 40, 40)
        self.assertEqual(self.measure(cores), 0)

    def test_with_more_than_two_cores_no_distance_is_measured(self):
        cores = self.cores(count=8)
        self.assertEqual(self.measure(cores), 0)
        self.assertEqual(list(cores.notes()), [])


class ReadingTest(unittest.TestCase):
    def test_answers_are_read_from_the_metrics_page(self):
        self.assertEqual(processes.answers_on("""
# TYPE sluice_checks_total counter
sluice_checks_total{domain="bench",rule="per-user",decision="allowed",source="store"} 1e+06
sluice_checks_total{domain="bench",rule="per-user",decision="denied",source="deny_cache"} 20
sluice_refused_total{code="unavailable"} 3
sluice_store_failures_total{kind="timeout"} 9
process_open_fds 17
"""), answers(allowed=1_000_000, denied=20, errors={"unavailable": 3}, STORE=1_000_000,
              DENY_CACHE=20))

    def test_words_are_read_as_redis_quotes_them(self):
        line = r'1795274272.799343 [0 127.0.0.1:58860] "EVALSHA" "a\"b\\" "\x00\n@"' + "\n"
        self.assertEqual(raw.words_of(line), [b"EVALSHA", b'a"b\\', b"\0\n@"])

    def test_the_raw_call_has_the_argument_in_the_script_and_a_random_user(self):
        call = raw.RawCall(b"return #ARGV", [b"EVALSHA", b"sha1", b"1", b"{a/7}:k", b"\x007"], b"7")
        self.assertEqual(call.script, b'local ARGV = { "\\000\\055" }\nreturn #ARGV')
        self.assertEqual(call.keys, [b"{a/__rand_int__}:k"])

    def test_a_request_is_encoded_as_in_grpc(self):
        self.assertEqual(
            loads.grpc_frame(loads.check_request("/pay", "42")),
            b"\0\0\0\0\x25" b"\x0a\x05bench" b"\x12\x10\x0a\x08endpoint\x12\x04/pay"
            b"\x12\x0a\x0a\x04user\x12\x0242")

    def test_work_of_others_is_the_machines_work_without_ours(self):
        before, now = (100.0, 10.0, 50.0), (106.0, 12.0, 54.0)
        self.assertEqual(machine.other_work(before, now, cores=2), 0.5)
        self.assertEqual(machine.other_work(before, (100.0, 12.0, 54.0), cores=2), 0)

    def test_work_of_ended_children_is_ours(self):
        burn = "import time\nwhile time.process_time() < 0.2: pass"
        _, before, _ = machine.usage()
        subprocess.run([sys.executable, "-c", burn], check=True, timeout=60)
        self.assertGreaterEqual(machine.usage()[1] - before, 0.2)

    def test_cpu_clock_counts_the_work_of_one_process(self):
        before = time.process_time()
        now = time.clock_gettime(processes.cpu_clock(os.getpid()))
        self.assertLessEqual(before, now)
        self.assertLessEqual(now, time.process_time())
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:  # cat uses almost no CPU
            self.assertLess(time.clock_gettime(processes.cpu_clock(child.pid)), now)


class ProcessTest(unittest.TestCase):
    def test_a_process_ends_with_the_report_even_if_the_report_is_killed(self):
        report = ("import sys; sys.path.insert(0, sys.argv[1]); import processes, time\n"
                  "print(processes.start(['sleep', '60']).pid, flush=True); time.sleep(60)")
        with subprocess.Popen([sys.executable, "-c", report, REPORT], text=True,
                              stdout=subprocess.PIPE) as killed:
            pid = int(killed.stdout.readline())
            server = os.pidfd_open(pid)
            self.addCleanup(os.close, server)
            # Until setpriv has executed the command, the process may outlive the report.
            comm, deadline = pathlib.Path(f"/proc/{pid}/comm"), time.monotonic() + 20
            while comm.read_text("ascii") != "sleep\n" and time.monotonic() < deadline:
                time.sleep(0.01)
            killed.kill()
        ended, _, _ = select.select([server], [], [], 20)
        self.assertTrue(ended)


class CommandLineTest(unittest.TestCase):
    def run_script(self, *arguments):
        return subprocess.run([REPORT.parents[2] / "scripts/bench.sh", *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=20, check=False)

    def test_help_lists_flags_and_builds_nothing(self):
        result = self.run_script("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for flag in ("--seconds", "--warm-up", "--rounds", "--cases", "--json", "--versus"):
            self.assertIn(flag, result.stdout)

    def test_the_error_for_a_wrong_value_names_the_flag_and_what_is_allowed(self):
        for flag, value, allowed in (
            ("--seconds", "0.5", "number of at least 1"),
            ("--rounds", "2.5", "number of at least 1"),
            ("--cases", "(", "regular expression"),
            ("--cases", "no such row", "title"),
            ("--json", "/no/such/folder/x", "existing directory"),
            ("--versus", "/no/such/program", "program"),
        ):
            result = subprocess.run([sys.executable, REPORT, flag, value], capture_output=True,
                                    text=True, timeout=20, check=False)
            self.assertEqual(result.returncode, 2)
            for part in (flag, value, allowed):
                self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main()
