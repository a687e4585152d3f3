"""Limits of a language model's customers: one check takes requests, tokens and money. Checks arrive
by gRPC (also in batches and streams), as JSON and by /v1/auth, with the embedded store and Redis.

Usage: amounts_test.py SLUICE SLUICED PYTHON_PROTO
"""

import json
import subprocess
import sys
import unittest

SLUICE, SLUICED = sys.argv[1:3]
sys.path.insert(0, sys.argv[3])

# pylint: disable=wrong-import-position
import running
from doors import LIMITER, Grpc, Http, api

# No bucket refills and no window ends while the test runs.
RULES = """
domain: llm
rules:
  - name: model
    match: {customer: {exists: true}}
    per: [customer]
    limits:
      - {algorithm: token_bucket, rate: 3/d, burst: 3, counts: requests}
      - {algorithm: sliding_log, limit: 100, window: 30d, counts: [input, output]}
      - {algorithm: fixed_window, limit: 1000, window: 30d, counts: {input: 3, output: 15}}
    overrides:
      - match: {model: large}
        limits:
          - {algorithm: sliding_log, limit: 100, window: 30d, counts: [input, output]}
          - {algorithm: fixed_window, limit: 1000, window: 30d, counts: {input: 15, output: 75}}
  - name: gpus
    match: {gpu: "1"}
    limits: [{algorithm: concurrency, limit: 4, ttl: 1h, counts: gpus}]
"""
SETTINGS = "callers: {{watcher: {{token_file: {folder}/token, domains: [llm], may: [peek]}}}}\n"


def request_of(customer, mode=api.MODE_CONSUME, cost=None, attributes=None, **amounts):
    return api.CheckLimitRequest(domain="llm", mode=mode, cost=cost, amounts=amounts,
                                 attributes={"customer": customer, **(attributes or {})})


def text_of(answer):
    """The decision and, for each limit, LEFT/UNITS: the units left, and the units of the check."""
    text = api.Decision.Name(answer.decision).removeprefix("DECISION_").lower()
    return " ".join([text, *(f"{it.remaining}/{it.units}" for it in answer.limits)])


class AmountsTest:
    redis = ()  # flags for sluiced
    customers = 0

    @classmethod
    def setUpClass(cls):
        folder = running.directory()
        (folder / "rules").mkdir()
        (folder / "rules" / "llm.yaml").write_text(RULES, encoding="utf-8")
        cls.admin = f"unix:{folder}/admin.sock"
        cls.sluiced, ready = running.start(
            [SLUICED, "--rules", folder / "rules", *cls.redis, "--grpc", "127.0.0.1:0",
             "--http", "127.0.0.1:0", "--admin", cls.admin], "ready grpc=")
        cls.grpc = Grpc(ready.split("grpc=")[1].split()[0])
        cls.http = Http(ready.split("http=")[1].split()[0])

    def setUp(self):
        AmountsTest.customers += 1
        self.customer = str(self.customers)

    def check(self, *arguments, **named):
        request = request_of(self.customer, *arguments, **named)
        answer = self.grpc.call(LIMITER + "CheckLimit", request.SerializeToString())
        self.assertIsInstance(answer, bytes, answer)
        return api.CheckLimitResponse.FromString(answer)

    def test_all_limits_take_their_units_or_none_does(self):
        self.assertEqual(text_of(self.check(input=20, output=10)), "allowed 2/1 70/30 790/210")
        self.assertEqual(text_of(self.check(output=60)), "denied 2/1 70/60 790/900")
        self.assertEqual(text_of(self.check(input=71)), "denied 2/1 70/71 790/213")
        self.assertEqual(text_of(self.check(input=70)), "allowed 1/1 0/70 580/210")
        self.assertEqual(text_of(self.check(input=1)), "denied 1/1 0/1 580/3")
        self.assertEqual(text_of(self.check()), "allowed 0/1 0/0 580/0")
        self.assertEqual(text_of(self.check()), "denied 0/1 0/0 580/0")

    def test_charge_afterward_denies_the_next_request(self):
        self.assertEqual(text_of(self.check()), "allowed 2/1 100/0 1000/0")
        charged = self.check(api.MODE_CHARGE, cost=0, input=10, output=65)
        self.assertEqual(text_of(charged), "denied 2/0 25/75 0/1005")
        self.assertEqual(text_of(self.check()), "denied 2/1 25/0 0/0", "the money is overdrawn")
        self.assertEqual(text_of(self.check(api.MODE_REFUND, cost=0, input=2)),
                         "allowed 2/0 27/2 1/6")
        self.assertEqual(text_of(self.check()), "allowed 1/1 27/0 1/0")

    def test_peeks_take_nothing_and_neither_do_checks_without_units(self):
        self.assertEqual(text_of(self.check(api.MODE_PEEK, input=101)), "denied 3/1 100/101 1000/303")
        self.assertEqual(text_of(self.check(cost=0, input=0)), "allowed 3/0 100/0 1000/0")
        self.assertEqual(text_of(self.check(cost=0, input=5)), "allowed 3/0 95/5 985/15")
        self.assertEqual(text_of(self.check(api.MODE_PEEK)), "allowed 3/1 95/0 985/0")

    def test_other_weights_use_the_same_counters(self):
        self.check(input=20)
        large = self.check(attributes={"model": "large"}, input=20)
        self.assertEqual(text_of(large), "allowed 60/20 640/300")
        self.assertEqual(text_of(self.check(api.MODE_PEEK, input=1)), "allowed 2/1 60/1 640/3")

    def test_batches_and_streams_accept_amounts(self):
        checks = [request_of(self.customer, input=60), request_of(self.customer, input=60),
                  request_of(self.customer, input=2**53), request_of(self.customer, input=40)]
        batch = api.CheckLimitsRequest(checks=checks)
        for place, check in enumerate(batch.checks):
            check.request_id = str(place)
        answers = api.CheckLimitsResponse.FromString(
            self.grpc.call(LIMITER + "CheckLimits", batch.SerializeToString()))
        self.assertEqual([text_of(it.response) for it in answers.results if it.HasField("response")],
                         ["allowed 2/1 40/60 820/180", "denied 2/1 40/60 820/180",
                          "allowed 1/1 0/40 700/120"])
        error = answers.results[2].error
        self.assertEqual((error.code, error.request_id), (3, "2"))
        self.assertIn('amounts: limits[2] of rule "model" counts more than 2^53', error.message)
        (frame,) = self.grpc.stream(
            LIMITER + "CheckLimitStream",
            api.CheckLimitsRequest(checks=[request_of(self.customer, cost=0, output=1)])
            .SerializeToString())
        (streamed,) = api.CheckLimitsResponse.FromString(frame).results
        self.assertEqual(text_of(streamed.response), "denied 1/0 0/1 700/15")

    def test_one_slot_is_held_for_each_counted_unit(self):
        attributes = {"gpu": "1"}
        held = self.check(attributes=attributes, gpus=3)
        self.assertEqual(text_of(held), "allowed 2/1 100/0 1000/0 1/3")
        self.assertTrue(held.lease.id)
        self.assertEqual(text_of(self.check(attributes=attributes, gpus=2)),
                         "denied 2/1 100/0 1000/0 1/2")
        without = self.check(attributes=attributes)
        self.assertEqual(text_of(without), "allowed 1/1 100/0 1000/0 1/0")
        self.assertFalse(without.lease.id, "no slot is held")
        released = api.ReleaseLeaseRequest(lease_id=held.lease.id).SerializeToString()
        self.assertEqual(self.grpc.call(LIMITER + "ReleaseLease", released), b"")
        self.assertEqual(text_of(self.check(api.MODE_PEEK, attributes=attributes, gpus=4)),
                         "allowed 1/1 100/0 1000/0 4/4")

    def test_json_accepts_amounts_and_each_error_names_the_field(self):
        check = {"domain": "llm", "attributes": {"customer": self.customer},
                 "amounts": {"input": 20, "output": "10", "tokns": 1}}
        status, text = self.http.ask("POST", "/v1/check", check)
        answer = json.loads(text)
        self.assertEqual((status, [it["units"] for it in answer["limits"]]), (200, ["1", "30", "210"]))
        self.assertEqual(answer["uncountedAmounts"], ["tokns"])
        for amounts, said in (
            ({"input": 2**53 + 1}, 'amounts[\\"input\\"]: is 9007199254740993; at most 2^53'),
            ({"": 1}, "amounts: a name is empty"),
            ({"cost": 1}, 'amounts[\\"cost\\"]: is not allowed; use the field cost'),
            ({"x" * 256: 1}, "amounts: a name: has 256 bytes; at most 255 are allowed"),
            ({str(i): 1 for i in range(17)}, "amounts: more than 16 are not allowed"),
            ({"input": -1}, "amounts"),
        ):
            status, text = self.http.ask("POST", "/v1/check", {**check, "amounts": amounts})
            self.assertEqual(status, 400, text)
            self.assertIn(said, text)

    def test_largest_amounts_are_accepted(self):
        amounts = {f"{i:0255}": 2**53 for i in range(16)}
        answer = self.check(**amounts)
        self.assertEqual(text_of(answer), "allowed 2/1 100/0 1000/0")
        self.assertEqual(sorted(answer.uncounted_amounts), sorted(amounts))

    def test_proxies_send_amounts(self):
        url = f"/v1/auth?domain=llm&customer={self.customer}&amount.input="
        self.assertEqual(self.http.ask("GET", url + "60")[0], 204)
        self.assertEqual(self.http.ask("GET", url + "60")[0], 429)
        status, text = self.http.ask("GET", url + str(2**53 + 1))
        self.assertEqual(status, 400)
        self.assertIn('amounts["input"]: is 9007199254740993', text)
        caller = Http(self.http.address)
        caller.headers = {"X-Sluice-Domain": "llm", "X-Sluice-Attr-Customer": self.customer,
                          "X-Sluice-Amount-Input": "40"}
        self.assertEqual(caller.ask("GET", "/v1/auth")[0], 204)
        self.assertEqual(caller.ask("GET", "/v1/auth")[0], 429)

    def test_explain_shows_the_counted_amounts(self):
        self.check(input=20)
        explained = subprocess.run(
            [SLUICE, "explain", "llm", f"customer={self.customer}", "--admin", self.admin],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(explained.returncode, 0, explained.stderr)
        key = f"sluice:{{llm/model/customer={self.customer}}}:"
        for part in ("    token_bucket of requests  2 of 3 left",
                     "    sliding_log of input + output  80 of 100 left",
                     "    fixed_window of 3 input + 15 output  940 of 1000 left",
                     f"\n      {key}token_bucket:1d=requests\n",
                     f"\n      {key}sliding_log:30d=input,output\n"):
            self.assertIn(part, explained.stdout)


class EmbeddedTest(AmountsTest, unittest.TestCase):
    def test_right_to_peek_is_enough_for_checks_that_take_nothing(self):
        folder = running.directory()
        (folder / "token").write_text("secret\n", encoding="utf-8")
        (folder / "llm.yaml").write_text(RULES, encoding="utf-8")
        (folder / "settings").write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        _, ready = running.start(
            [SLUICED, "--config", folder / "settings", "--rules", folder, "--grpc", "127.0.0.1:0",
             "--http", "127.0.0.1:0"], "ready grpc=")
        caller = Grpc(ready.split("grpc=")[1].split()[0], "secret")

        def ask(*arguments, **named):
            answer = caller.call(LIMITER + "CheckLimit",
                                 request_of("1", *arguments, **named).SerializeToString())
            return answer if isinstance(answer, str) else "answered"

        self.assertEqual(ask(api.MODE_PEEK, input=5), "answered")
        self.assertEqual(ask(cost=0, input=0), "answered")
        self.assertEqual(ask(cost=0, input=5), "PERMISSION_DENIED")
        self.assertEqual(ask(api.MODE_CHARGE, cost=0, input=5), "PERMISSION_DENIED")
        self.assertEqual(ask(), "PERMISSION_DENIED")


class RedisTest(AmountsTest, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, url = running.start_redis(running.directory())
        cls.redis = ("--redis", url, "--redis-timeout", "900ms")
        super().setUpClass()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
