#!/usr/bin/python3
"""Runs the gateway of docker/llm with customers, Sluice, Redis and a fake model, and compares the
counters with the model's bills.

Usage: gateway.py BIN FOLDER [TEST...]    BIN: folder of sluiced and sluice; FOLDER: folder of the
gateway, with its packages; TEST: such as GatewayTest.test_the_example_files_can_be_loaded

STREAMS: the number of concurrent streams of the last test in this file, 100 unless set. In this
test, a third of the streams are aborted at a random place, both servers are killed and started
again, every message to Sluice is sent twice, and Redis is stopped for 5 s.
"""

import asyncio
import atexit
import collections
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from programs import SOON, Answer, Program, free_port, start_redis, until, without_batch_errors
from twice import Twice

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN, FOLDER = map(pathlib.Path, sys.argv[1:3])
STREAMS = int(os.environ.get("STREAMS", "100"))
POOR = 70_000 * STREAMS  # nano-dollars, about half of what each customer would use in the last test
CUSTOMERS = [f"customer-{index}" for index in range(8)] + ["poor-0", "poor-1"]

PRICES = """
models:
  large: {input: 3, output: 15, max_tokens: 4096}
part: 20
"""
# The rules of docker/llm, but with windows of a day and other limits. In the last test, poor
# customers use up their money.
RULES = f"""
domain: llm
rules:
  - name: requests
    per: [customer]
    limits: [{{algorithm: fixed_window, limit: 1000000, window: 1d, counts: requests}}]
  - name: tokens
    per: [customer]
    limits: [{{algorithm: fixed_window, limit: 100000000, window: 1d, counts: [input_tokens, output_tokens]}}]
  - name: dollars
    per: [customer]
    limits: [{{algorithm: fixed_window, limit: 100000000000, window: 1d, counts: nano_dollars}}]
    overrides:
      - match: {{customer: [poor-0, poor-1]}}
        limits: [{{algorithm: fixed_window, limit: {POOR}, window: 1d, counts: nano_dollars}}]
  - name: streams
    per: [customer]
    limits: [{{algorithm: concurrency, limit: 100000, ttl: 1d}}]
"""


def messages():
    """The messages of the API."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["protoc", f"--proto_path={ROOT}/proto", f"--python_out={folder}",
                    "sluice/v1/rate_limiter.proto"], check=True)
    sys.path.insert(0, folder)
    return importlib.import_module("sluice.v1.rate_limiter_pb2")


PB = messages()


class GatewayTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        loop = asyncio.get_running_loop()
        loop.set_debug(False)  # it is slow
        loop.set_exception_handler(without_batch_errors)
        # pylint: disable=consider-using-with
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        self.prices = folder / "prices.yaml"
        self.prices.write_text(PRICES)
        (folder / "rules").mkdir()
        (folder / "rules/llm.yaml").write_text(RULES)
        (folder / "keys.yaml").write_text("".join(f"sk-{it}: {it}\n" for it in CUSTOMERS))
        self.redis, url = await start_redis(str(folder))
        self.addAsyncCleanup(self.redis.wait)
        self.addCleanup(self.redis.kill)
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self.servers = [Program([
            BIN / "sluiced", "--rules", folder / "rules", "--redis", url, "--redis-timeout", "300ms",
            "--grpc", address, "--http", "127.0.0.1:0", "--admin", "off", "--drain", "1ms"])
            for address in self.addresses]
        self.upstream = Program(["node", FOLDER / "upstream.js"], LISTEN="127.0.0.1:0")
        for program in [*self.servers, self.upstream]:
            ready = await program.start()
            self.addAsyncCleanup(program.kill)
        self.twice = await self.enterAsyncContext(Twice(PB, self.addresses))
        self.gateway = Program(
            ["node", FOLDER / "gateway.js"], LISTEN="127.0.0.1:0", SLUICE_ADDR=self.twice.address,
            UPSTREAM=f"http://127.0.0.1:{ready.split()[-1]}", PRICES=str(self.prices),
            KEYS=str(folder / "keys.yaml"), DEADLINE="20000")
        self.port = int((await self.gateway.start()).split()[-1])
        self.addAsyncCleanup(self.gateway.kill)

    async def ask(self, customer, said, **fields):
        """Sends a request. Returns the answer, whose body the caller reads."""
        body = json.dumps({"model": "large", "stream": True, "max_tokens": 1000, "user": customer,
                           "messages": [{"role": "user", "content": said}], **fields})
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.addCleanup(writer.close)
        writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer "
                     f"sk-{customer}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        status = int((await reader.readline()).split()[1])
        headers = {}
        while (line := (await reader.readline()).decode().strip()):
            name, value = line.split(": ", 1)
            headers[name.lower()] = value
        return Answer(status, headers, reader, writer)

    def used(self, customer):
        """The units in the counters, by rule; for a counter that exceeds its limit, the limit."""
        end = time.monotonic() + SOON
        while (answer := self.peek(customer)).get("source") != "SOURCE_STORE":
            assert time.monotonic() < end, f"the store does not answer: {answer}"
            time.sleep(0.2)
        return {it["rule"]: int(it["limit"]) - int(it.get("remaining", 0)) for it in answer["limits"]}

    def peek(self, customer):
        return json.loads(subprocess.run(
            [BIN / "sluice", "check", "llm", f"customer={customer}", "--peek", "--json", "--timeout", "20s",
             "--addr", self.addresses[0]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            check=False).stdout)

    async def settled(self):
        """Ends the gateway, which waits until every settlement is stored."""
        await self.gateway.stop()
        self.assertEqual(self.gateway.process.returncode, 0, self.gateway.said)

    async def bill_of(self, customer):
        find = lambda: [it for it in self.upstream.lines if it["user"] == customer]
        await until(find, "the model bills")
        return find()[-1]

    def assert_equal_to(self, bill, customer, requests=1):
        tokens = bill["input"] + bill["output"]
        dollars = bill["input"] * 3000 + bill["output"] * 15000
        self.assertEqual(self.used(customer),
                         {"requests": requests, "tokens": tokens, "dollars": dollars, "streams": 0})

    async def test_a_stream_is_settled_with_the_usage_of_the_model(self):
        answer = await self.ask("customer-0", "50 tokens")  # three parts
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["x-ratelimit-limit-dollars"], "100")
        self.assertIn(answer.headers["x-ratelimit-remaining-requests"], ("999999", "999998"))  # taken twice
        events = [it async for it in answer.events()]
        self.assertEqual(len(events), 51)  # no event has the usage: the customer did not ask for it
        self.assertEqual(events[-1], "[DONE]")
        await self.settled()
        bill = await self.bill_of("customer-0")
        self.assertEqual(bill["output"], 53)
        self.assert_equal_to(bill, "customer-0")

    async def test_an_answer_without_a_stream_is_settled_as_well(self):
        answer = await self.ask("customer-0", "50 tokens", stream=False)
        self.assertIn("usage", json.loads(await answer.body()))
        await self.settled()
        self.assert_equal_to(await self.bill_of("customer-0"), "customer-0")

    async def test_if_max_tokens_is_null_the_maximum_of_the_price_list_applies(self):
        answer = await self.ask("customer-0", "50 tokens", stream=None, max_tokens=None, n=None)
        content = json.loads(await answer.body())["choices"][0]["message"]["content"]
        self.assertEqual(len(content.split()), 50)

    async def test_a_failure_of_the_model_costs_only_the_request(self):
        answer = await self.ask("customer-0", "status 500")
        self.assertEqual((answer.status, json.loads(await answer.body())["error"]["message"]),
                         (500, "as you wish"))
        await self.settled()
        self.assert_equal_to({"input": 0, "output": 0}, "customer-0")

    async def test_an_answer_without_usage_is_charged_as_taken(self):
        answer = await self.ask("customer-0", "50 tokens, as text", stream=False, max_tokens=60)
        self.assertEqual((answer.status, len((await answer.body()).split())), (200, 50))
        await self.settled()
        bill = await self.bill_of("customer-0")
        self.assert_equal_to(bill | {"output": 60}, "customer-0")

    async def test_a_broken_answer_of_the_model_ends_with_an_error(self):
        answer = await self.ask("customer-0", "20 tokens, break")
        events = [it async for it in answer.events()]
        self.assertEqual(len(events), 11)
        self.assertEqual(json.loads(events[-1])["error"]["code"], "upstream_error")
        await self.settled()
        self.assert_equal_to(await self.bill_of("customer-0"), "customer-0")

    async def test_a_customer_who_disconnects_during_a_shutdown_pays(self):
        for _ in range(5):  # a race
            answer = await self.ask("customer-0", "50 tokens, 50 ms each")
            await anext(answer.events())
            answer.close()
            await self.settled()
            self.port = int((await self.gateway.start()).split()[-1])
        self.assertEqual([it["outcome"] for it in self.gateway.lines], ["aborted"] * 5)
        dollars = sum(it["nano_dollars"] for it in self.gateway.lines)
        tokens = sum(it["input_tokens"] + it["output_tokens"] for it in self.gateway.lines)
        self.assertEqual(self.used("customer-0"),
                         {"requests": 5, "tokens": tokens, "dollars": dollars, "streams": 0})

    async def test_without_money_a_request_is_denied_and_a_stream_is_stopped(self):
        tokens = POOR // 10_000  # the money is enough for two thirds of them
        answer = await self.ask("poor-0", f"{tokens} tokens", max_tokens=tokens)
        events = [json.loads(it) async for it in answer.events()]
        self.assertEqual(events[-1]["error"]["message"], "stopped: the limit dollars is reached")
        self.assertGreater(int(events[-1]["error"]["retry_after"]), 80_000)
        self.assertGreater(len(events), tokens // 2)
        answer = await self.ask("poor-0", "400 tokens", stream=False, max_tokens=POOR // 30_000)
        self.assertEqual(answer.status, 429)
        self.assertEqual(json.loads(await answer.body())["error"]["message"], "the limit dollars is reached")
        self.assertGreater(int(answer.headers["retry-after"]), 80_000)

    async def test_a_request_that_has_begun_keeps_its_prices(self):
        answer = await self.ask("customer-0", "60 tokens, 50 ms each")
        self.prices.write_text(PRICES.replace("15", "150"))
        await until(lambda: any(b"new prices" in it for it in self.gateway.said), "the prices are read")
        self.assertEqual([it async for it in answer.events()][-1], "[DONE]")
        later = await self.ask("customer-1", "60 tokens")
        self.assertEqual([it async for it in later.events()][-1], "[DONE]")
        await self.settled()
        self.assert_equal_to(await self.bill_of("customer-0"), "customer-0")
        bill = await self.bill_of("customer-1")
        self.assertEqual(self.used("customer-1")["dollars"], bill["input"] * 3000 + bill["output"] * 150_000)

    async def test_a_request_that_cannot_be_passed_on_is_refused(self):
        for fields, status, code in (({"model": "huge"}, 400, "invalid_request_error"),
                                     ({"max_tokens": -1}, 400, "invalid_request_error"),
                                     # With `stream: "yes"`, some models send a stream, and bill it.
                                     ({"stream": "yes"}, 400, "invalid_request_error")):
            answer = await self.ask("customer-0", "1 token", **fields)
            self.assertEqual((answer.status, json.loads(await answer.body())["error"]["code"]), (status, code))
        self.assertEqual((await self.ask("nobody", "1 token")).status, 401)
        for server in self.servers:
            await server.stop(signal.SIGKILL)
        answer = await self.ask("customer-0", "1 token")
        self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"))

    async def test_the_example_files_can_be_loaded(self):
        subprocess.run([BIN / "sluice", "validate", ROOT / "docker/llm/rules"], check=True,
                       stdout=subprocess.DEVNULL)
        gateway = Program(["node", FOLDER / "gateway.js"], LISTEN="127.0.0.1:0",
                          PRICES=str(ROOT / "docker/llm/prices.yaml"), KEYS=str(ROOT / "docker/llm/keys.yaml"))
        self.assertIn("ready", await gateway.start())
        await gateway.kill()

    async def test_despite_failures_the_counters_have_the_units_that_the_gateway_has_seen(self):
        asked = collections.Counter()

        async def stream(index):
            customer = CUSTOMERS[index % len(CUSTOMERS)]
            tokens = random.randint(60, 140)
            abort_at = random.randint(0, tokens) if index % 3 == 0 else None
            answer = await self.ask(customer, f"{tokens} tokens, 200 ms each")
            asked[customer, answer.status] += 1
            if answer.status == 200:
                seen = 0
                async for _ in answer.events():
                    seen += 1
                    if seen == abort_at:
                        break
            answer.close()

        async def misfortunes():
            for server in self.servers:
                await asyncio.sleep(2)
                await server.stop(signal.SIGKILL)
                await asyncio.sleep(0.5)
                await server.start()
            await asyncio.sleep(1)
            self.redis.send_signal(signal.SIGSTOP)
            await asyncio.sleep(5)
            self.redis.send_signal(signal.SIGCONT)

        begin = time.monotonic()
        await asyncio.gather(misfortunes(), *map(stream, range(STREAMS)))
        seconds = time.monotonic() - begin
        await self.settled()
        await self.twice.settled()
        ids = {it["id"] for it in self.gateway.lines if it["outcome"] not in ("denied", "failed")}
        await until(lambda: ids <= {it["id"] for it in self.upstream.lines}, "the model bills")
        print(f"\n{STREAMS} streams in {seconds:.0f} s, {self.twice.messages} messages to Sluice")
        self.compare(asked)

    def compare(self, asked):
        """Prints a line for each customer and counter, and checks the counters."""
        passed = {it["id"]: it for it in self.gateway.lines}
        print(f"{'customer':<11}{'counter':<9}{'billed':>12}{'counted':>12}{'not seen':>10}{'unanswered':>12}"
              "  streams")
        wrong = []
        for customer in CUSTOMERS:
            bills = [(it, passed[it["id"]]) for it in self.upstream.lines if it["user"] == customer]
            counted = self.used(customer)
            outcomes = collections.Counter(it["outcome"] for it in passed.values()
                                           if it["customer"] == customer)
            for rule, of_bill, of_gateway, names in COUNTERS:
                billed = sum(of_bill(bill) for bill, _ in bills)
                seen = sum(of_gateway(mine) for _, mine in bills)
                unanswered = sum(self.twice.unanswered[customer, name] for name in names)
                print(f"{customer:<11}{rule:<9}{billed:>12}{counted[rule]:>12}{billed - seen:>10}"
                      f"{unanswered:>12}  {dict(outcomes) if rule == 'requests' else ''}")
                limit = LIMITS.get((customer, rule), float("inf"))
                if not min(seen, limit) <= counted[rule] <= min(seen + unanswered, limit):
                    wrong.append(f"{customer} {rule}: counted {counted[rule]}, expected {seen} to "
                                 f"{seen + unanswered}")
            for bill, mine in bills:
                if bill["complete"] and mine["outcome"] == "completed":
                    self.assertEqual(bill["output"], mine["output_tokens"])
            # Slots taken by checks without an answer are free after the ttl, which is a day.
            if counted["streams"] > self.twice.unanswered[customer, "requests"]:
                wrong.append(f"{customer}: {counted['streams']} slots are not free")
        self.assertEqual(wrong, [])
        self.assertGreater(sum(it["outcome"] == "aborted" for it in passed.values()), STREAMS // 5)
        self.assertGreater(sum(it["outcome"] == "completed" for it in passed.values()), STREAMS // 4)


def nano_dollars(bill):
    return bill["input"] * 3000 + bill["output"] * 15000


# For each rule: its name, its units in a bill and in a line of the gateway, and the amounts it
# counts.
COUNTERS = [
    ("requests", lambda bill: 1, lambda mine: 1, ["requests"]),
    ("tokens", lambda bill: bill["input"] + bill["output"],
     lambda mine: mine["input_tokens"] + mine["output_tokens"], ["input_tokens", "output_tokens"]),
    ("dollars", nano_dollars, lambda mine: mine["nano_dollars"], ["nano_dollars"]),
]
LIMITS = {("poor-0", "dollars"): POOR, ("poor-1", "dollars"): POOR}

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
