"""Leases of units on a real server: a check takes units by an estimate, and a settlement replaces
the estimate with what was used. The calls come by gRPC, as JSON and from the tool. The store is the
embedded one or Redis.

Usage: leases_test.py SLUICE SLUICED PYTHON_PROTO

In the environment, SETTLED_IN_OUTAGE sets the number of settlements while Redis is down, and
OUTAGE_SECONDS sets the time over which they are spread (default: 2000 and 0).
"""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

SLUICE, SLUICED = sys.argv[1:3]
sys.path.insert(0, sys.argv[3])

# pylint: disable=wrong-import-position
import running
from doors import LIMITER, Grpc, Http, api

# Nothing refills or ends while the test runs.
RULES = """
domain: llm
rules:
  - name: model
    match: {customer: {exists: true}}
    per: [customer]
    max_lease_ttl: 5m
    limits:
      - {algorithm: token_bucket, rate: 10/d, burst: 10, counts: requests}
      - {algorithm: fixed_window, limit: 1000, window: 30d, counts: {input: 3, output: 15}}
"""
OTHER_WEIGHTS = RULES.replace("input: 3, output: 15", "input: 30, output: 150")
SETTINGS = """
callers:
  watcher: {{token_file: {folder}/watcher, domains: [llm], may: [peek]}}
  worker: {{token_file: {folder}/worker, domains: [llm], may: [consume, lease]}}
  stranger: {{token_file: {folder}/stranger, domains: [shop], may: [consume, lease]}}
"""
MOST = 2**53


def outcome(answer):
    return answer if isinstance(answer, str) else api.Outcome.Name(answer.outcome)


class LeasesTest:
    redis = ()  # flags for sluiced
    customers = 0

    @classmethod
    def setUpClass(cls):
        cls.folder = running.directory()
        (cls.folder / "rules").mkdir()
        cls.rules = cls.folder / "rules" / "llm.yaml"
        cls.rules.write_text(RULES, encoding="utf-8")
        cls.admin = f"unix:{cls.folder}/admin.sock"
        cls.sluiced, ready = running.start(
            [SLUICED, "--rules", cls.folder / "rules", *cls.redis, "--grpc", "127.0.0.1:0",
             "--http", "127.0.0.1:0", "--admin", cls.admin], "ready grpc=")
        cls.address = ready.split("grpc=")[1].split()[0]
        cls.grpc = Grpc(cls.address)
        cls.http = Http(ready.split("http=")[1].split()[0])

    def setUp(self):
        LeasesTest.customers += 1
        self.customer = f"{type(self).__name__}-{self.customers}"

    def request(self, ttl=60, **amounts):
        request = api.CheckLimitRequest(
            domain="llm", amounts=amounts, attributes={"customer": self.customer})
        if ttl:
            request.lease_ttl.FromMilliseconds(int(ttl * 1000))
        return request

    def check(self, caller=None, **named):
        answer = (caller or self.grpc).call(
            LIMITER + "CheckLimit", self.request(**named).SerializeToString())
        return answer if isinstance(answer, str) else api.CheckLimitResponse.FromString(answer)

    def take(self, **amounts):
        answer = self.check(**amounts)
        self.assertTrue(answer.lease.id, answer)
        return answer.lease.id

    def settle(self, lease, caller=None, cost=None, **amounts):
        request = api.SettleLeaseRequest(lease_id=lease, cost=cost, amounts=amounts)
        answer = (caller or self.grpc).call(LIMITER + "SettleLease", request.SerializeToString())
        return answer if isinstance(answer, str) else api.SettleLeaseResponse.FromString(answer)

    def left(self):
        """The units left in both limits: requests, then weighted amounts."""
        request = self.request(ttl=None)
        request.mode = api.MODE_PEEK
        answer = api.CheckLimitResponse.FromString(
            self.grpc.call(LIMITER + "CheckLimit", request.SerializeToString()))
        return [it.remaining for it in answer.limits]

    def sluice(self, *arguments, status=0):
        run = subprocess.run([SLUICE, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_unused_units_are_given_back_and_a_second_settlement_changes_nothing(self):
        lease = self.take(input=100, output=20)
        self.assertEqual(self.left(), [9, 400])
        settled = self.settle(lease, input=50, outputs=1)
        self.assertEqual(outcome(settled), "OUTCOME_SETTLED")
        self.assertEqual([(it.rule, it.index, it.held, it.units, it.remaining)
                          for it in settled.limits],
                         [("model", 0, 1, 1, 9), ("model", 1, 600, 450, 550)])
        self.assertEqual(settled.uncounted_amounts, ["outputs"])
        self.assertEqual(outcome(self.settle(lease, input=0)), "OUTCOME_ALREADY_SETTLED")
        self.assertEqual(self.left(), [9, 550])

    def test_units_used_in_addition_are_charged_and_deny_the_next_request(self):
        settled = self.settle(self.take(input=100), output=100)
        self.assertEqual((settled.limits[1].held, settled.limits[1].units), (300, 1800))
        self.assertEqual(self.left(), [9, 0])
        self.assertEqual(self.check().decision, api.DECISION_DENIED)

    def test_lease_is_renewed_and_released(self):
        lease = self.take(input=100)
        renewed = self.grpc.call(
            LIMITER + "RenewLease", api.RenewLeaseRequest(lease_id=lease).SerializeToString())
        self.assertEqual(api.RenewLeaseResponse.FromString(renewed).ttl.seconds, 60)
        released = api.ReleaseLeaseRequest(lease_id=lease).SerializeToString()
        self.assertEqual(self.grpc.call(LIMITER + "ReleaseLease", released), b"")
        self.assertEqual(outcome(self.settle(lease, input=0)), "OUTCOME_ALREADY_SETTLED")
        self.assertEqual(self.left(), [9, 700])

    def test_other_weights_between_take_and_settlement_change_nothing(self):
        lease = self.take(input=10)
        self.rules.write_text(OTHER_WEIGHTS, encoding="utf-8")
        self.sluice("reload", "--admin", self.admin)
        self.assertEqual(outcome(self.settle(lease, input=5)), "OUTCOME_SETTLED")
        self.rules.write_text(RULES, encoding="utf-8")
        self.sluice("reload", "--admin", self.admin)
        self.assertEqual(self.left(), [9, 985])

    def test_many_settlements_at_once_settle_each_lease_once(self):
        leases = [self.take(input=10) for _ in range(9)]
        self.assertEqual(self.left(), [1, 730])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(lambda it: outcome(self.settle(it, input=4)), leases * 5))
        self.assertEqual(outcomes.count("OUTCOME_SETTLED"), 9)
        self.assertEqual(outcomes.count("OUTCOME_ALREADY_SETTLED"), 36)
        self.assertEqual(self.left(), [1, 892])

    def test_hostile_settlements_change_nothing(self):
        lease = self.take(input=100)
        for edited in (lease.replace("100:input", "999:input"), lease.replace("60000000", "90000000"),
                       lease.replace("*3", "*4"), lease.replace("1000,", "9000,")):
            self.assertNotEqual(edited, lease)
            self.assertEqual(outcome(self.settle(edited, input=0)), "OUTCOME_NOT_FOUND", edited)
        foreign = lease.replace(self.customer, "victim")
        self.assertEqual(outcome(self.settle(foreign, input=0)), "OUTCOME_NOT_FOUND")
        for broken in ("", "x", lease[:-1] + ":", lease + " ", "3" + lease[1:], lease * 40):
            self.assertEqual(outcome(self.settle(broken)), "INVALID_ARGUMENT", broken)
        self.assertEqual(outcome(self.settle(lease, input=MOST)), "INVALID_ARGUMENT")
        self.assertEqual(outcome(self.settle(lease, cost=MOST + 1)), "INVALID_ARGUMENT")
        longest = {f"{i:0255}": MOST for i in range(16)}
        self.assertEqual(self.left(), [9, 700])
        settled = self.settle(lease, **longest)
        self.assertEqual(outcome(settled), "OUTCOME_SETTLED")
        self.assertEqual(sorted(settled.uncounted_amounts), sorted(longest))
        self.assertEqual(self.check(ttl=301), "INVALID_ARGUMENT")
        self.assertEqual(self.check(ttl=0.099), "INVALID_ARGUMENT")
        self.assertEqual(self.left(), [9, 700])

    def test_json_takes_and_settles_leases(self):
        check = {"domain": "llm", "attributes": {"customer": self.customer},
                 "amounts": {"input": 100}, "leaseTtl": "60s"}
        status, text = self.http.ask("POST", "/v1/check", check)
        lease = json.loads(text)["lease"]["id"]
        for said in ("OUTCOME_SETTLED", "OUTCOME_ALREADY_SETTLED"):
            status, text = self.http.ask(
                "POST", "/v1/leases/settle", {"leaseId": lease, "amounts": {"input": 60}})
            self.assertEqual((status, json.loads(text)["outcome"]), (200, said))
        status, text = self.http.ask("POST", "/v1/check", {**check, "leaseTtl": "301s"})
        self.assertEqual(status, 400)
        self.assertIn('lease_ttl: is 301s; rule \\"model\\" allows at most 5m', text)
        status, text = self.http.ask("POST", "/v1/check", {**check, "mode": "MODE_PEEK"})
        self.assertEqual(status, 400)
        self.assertIn("lease_ttl: only allowed with MODE_CONSUME", text)
        self.assertEqual(self.left(), [9, 820])

    def test_tool_takes_shows_and_settles_a_lease(self):
        where = ("--addr", self.address)
        request = ("llm", f"customer={self.customer}")
        taken = self.sluice("check", *request, "--amount", "input=100", "--lease-ttl", "60s", "--json",
                            *where)
        lease = json.loads(taken)["lease"]["id"]
        shown = self.sluice("explain", "--lease", lease, "--admin", self.admin)
        self.assertRegex(shown, r"OPEN  ends at 20[-0-9]+T[:.0-9]+Z, can be settled")
        self.assertIn("model[1]  fixed_window  held 300 of 3 input + 15 output", shown)
        self.assertIn("taken with input=100", shown)
        self.assertIn("held 300, used 60", self.sluice("settle", lease, "--amount", "input=20", *where))
        self.assertIn("ALREADY SETTLED", self.sluice("settle", lease, *where))
        self.assertIn("The lease holds nothing",
                      self.sluice("explain", "--lease", lease, "--admin", self.admin))
        unknown = lease.replace("100:input", "101:input")
        self.assertIn("NOT FOUND", self.sluice("settle", unknown, *where, status=1))
        self.assertEqual(self.left(), [9, 940])

    def test_sluice_hold_settles_with_what_was_used(self):
        usage = pathlib.Path(running.directory()) / "usage"
        hold = ("hold", "llm", f"customer={self.customer}", "--amount", "input=100", "--lease-ttl",
                "60s", "--settle-from", usage, "--addr", self.address, "--")
        self.sluice(*hold, "sh", "-c", f"echo input=10 > {usage}; exit 7", status=7)
        self.assertEqual(self.left(), [9, 970])
        self.sluice(*hold, "sh", "-c", "exit 7", status=7)
        self.assertEqual(self.left(), [8, 670], "the usage of the earlier run is not used again")
        self.assertIn("usage:1: ", self.sluice(*hold, "sh", "-c", f"echo input=ten > {usage}"))
        self.assertEqual(self.left(), [7, 370])
        self.sluice(*hold, "/no/such/command", status=127)
        self.assertEqual(self.left(), [7, 370], "nothing was used")
        usage.unlink()
        usage.mkdir()
        self.assertIn("usage is not a regular file", self.sluice(*hold, "true", status=2))
        hold = tuple(usage / "absent" / "usage" if word is usage else word for word in hold)
        self.assertIn("usage cannot be emptied", self.sluice(*hold, "true", status=2))
        self.assertEqual(self.left(), [7, 370], "nothing was used")

    def test_sluice_hold_that_cannot_settle_says_how_to_settle_later(self):
        self.customer += "'s"
        usage = pathlib.Path(running.directory()) / "usage"
        said = self.sluice(
            "hold", "llm", f"customer={self.customer}", "--amount", "input=100", "--lease-ttl", "60s",
            "--settle-from", usage, "--addr", self.address, "--timeout", "1s", "--", "sh", "-c",
            f"echo input=10 > {usage}; kill -STOP {self.sluiced.pid}; "
            f"until grep -q 'State:.T' /proc/{self.sluiced.pid}/status; do :; done")
        os.kill(self.sluiced.pid, signal.SIGCONT)
        command = re.search(r"Settle it until 10 minutes after its end:  sluice (settle .* --amount input=10)\n", said)
        subprocess.run(f"{SLUICE} {command.group(1)} --addr {self.address}", shell=True, check=True,
                       stdout=subprocess.DEVNULL)
        self.assertEqual(self.left(), [9, 970])


class EmbeddedTest(LeasesTest, unittest.TestCase):
    def test_callers_need_the_right_to_use_leases(self):
        folder = running.directory()
        for name in ("watcher", "worker", "stranger"):
            (folder / name).write_text(f"secret of {name}\n".replace(" ", "-"), encoding="utf-8")
        (folder / "llm.yaml").write_text(RULES, encoding="utf-8")
        (folder / "settings").write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        _, ready = running.start(
            [SLUICED, "--config", folder / "settings", "--rules", folder, "--grpc", "127.0.0.1:0",
             "--http", "127.0.0.1:0"], "ready grpc=")
        address = ready.split("grpc=")[1].split()[0]
        watcher, worker, stranger = (
            Grpc(address, f"secret-of-{name}") for name in ("watcher", "worker", "stranger"))
        lease = self.check(worker, input=100).lease.id
        self.assertTrue(lease)
        self.assertEqual(self.settle(lease, stranger, input=0), "PERMISSION_DENIED")
        self.assertEqual(self.settle(lease, watcher, input=0), "PERMISSION_DENIED")
        self.assertEqual(self.settle(lease, Grpc(address), input=0), "UNAUTHENTICATED")
        request = self.request(input=5)
        request.cost = 0
        self.assertEqual(watcher.call(LIMITER + "CheckLimit", request.SerializeToString()),
                         "PERMISSION_DENIED")
        self.assertEqual(outcome(self.settle(lease, worker, input=0)), "OUTCOME_SETTLED")


class RedisTest(LeasesTest, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, url = running.start_redis(running.directory())
        cls.redis = ("--redis", url, "--redis-timeout", "900ms")
        super().setUpClass()


class OutageTest(unittest.TestCase):
    LEASES = int(os.environ.get("SETTLED_IN_OUTAGE", "2000"))
    SECONDS = float(os.environ.get("OUTAGE_SECONDS", "0"))
    RULES = """
domain: llm
rules:
  - name: model
    limits: [{algorithm: fixed_window, limit: 1000000000, window: 30d, counts: [input]}]
"""

    def setUp(self):
        self.folder = running.directory()
        (self.folder / "llm.yaml").write_text(self.RULES, encoding="utf-8")
        self.redis, url = self.start_redis()
        _, ready = running.start(
            [SLUICED, "--rules", self.folder, "--redis", url, "--redis-timeout", "900ms", "--grpc",
             "127.0.0.1:0", "--http", "127.0.0.1:0"], "ready grpc=")
        self.grpc = Grpc(ready.split("grpc=")[1].split()[0])
        self.http = Http(ready.split("http=")[1].split()[0])

    def start_redis(self):
        return running.start_redis(self.folder, "--appendonly", "yes", "--appendfsync", "always")

    def call_all(self, name, requests, seconds=0):
        """Sends all requests, spread over `seconds`, at most 100 at a time. Returns the answers."""
        method = self.grpc.channel.unary_unary(LIMITER + name)
        places, calls, begin = threading.Semaphore(100), [], time.monotonic()
        for number, request in enumerate(requests):
            due = begin + seconds * number / len(requests)
            time.sleep(max(0, due - time.monotonic()))
            places.acquire()  # pylint: disable=consider-using-with
            call = method.future(request.SerializeToString(), timeout=60)
            call.add_done_callback(lambda _: places.release())
            calls.append(call)
        return [call.result() for call in calls]

    def settle_all(self, leases, seconds=0):
        requests = [api.SettleLeaseRequest(lease_id=it, amounts={"input": 3}) for it in leases]
        answers = self.call_all("SettleLease", requests, seconds)
        return {outcome(api.SettleLeaseResponse.FromString(it)) for it in answers}

    def used(self):
        """The units that Redis counts; None if Redis did not decide."""
        peek = api.CheckLimitRequest(domain="llm", mode=api.MODE_PEEK, amounts={"input": 1})
        answer = api.CheckLimitResponse.FromString(
            self.grpc.call(LIMITER + "CheckLimit", peek.SerializeToString()))
        if answer.source != api.SOURCE_STORE:
            return None
        return 1_000_000_000 - answer.limits[0].remaining

    def test_settlements_while_redis_is_down_are_applied_once_afterward(self):
        take = api.CheckLimitRequest(domain="llm", amounts={"input": 10})
        take.lease_ttl.FromSeconds(600)
        leases = [api.CheckLimitResponse.FromString(it).lease.id
                  for it in self.call_all("CheckLimit", [take] * self.LEASES)]
        self.assertEqual(self.used(), 10 * self.LEASES)
        self.redis.kill()
        self.redis.wait()
        running.wait_until(lambda: self.used() is None, 60, "the server reports that Redis is down")
        self.assertEqual(self.settle_all(leases, self.SECONDS), {"OUTCOME_QUEUED"})
        self.start_redis()
        running.wait_until(lambda: self.used() == 3 * self.LEASES, 60, "all settlements are applied")
        self.assertEqual(self.settle_all(leases[:100]), {"OUTCOME_ALREADY_SETTLED"})
        self.assertEqual(self.used(), 3 * self.LEASES)
        page = self.http.ask("GET", "/metrics")[1]
        self.assertIn("\nsluice_redis_lost_settles_total 0\n", page)
        self.assertIn("\nsluice_redis_queued_settles{loop=\"io-0\"} 0\n", page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
