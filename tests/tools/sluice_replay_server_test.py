#!/usr/bin/python3
"""`sluice replay` decides like a running server that gets the same requests at the same times.

Usage: sluice_replay_server_test.py SLUICE SLUICED SHIFTED_CLOCK
"""

import collections
import http.client
import json
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))
from running import directory, start  # noqa: E402

SLUICE, SLUICED, CLOCK = sys.argv[1:4]
RULES = """domain: shop
rules:
  - name: bucket
    match: {endpoint: {prefix: /pay}}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 30/m, burst: 3}
      - {algorithm: fixed_window, limit: 20, window: 1m}
    overrides:
      - match: {user: u1}
        limits:
          - {algorithm: token_bucket, rate: 90/m, burst: 5}
    missing: skip
  - name: log
    per: [user]
    limits: [{algorithm: sliding_log, limit: 25, window: 30s}]
    missing: skip
  - name: window
    match: {endpoint: /list}
    limits: [{algorithm: sliding_window, limit: 40, window: 20s}]
  - name: queue
    match: {endpoint: /queue}
    per: [user]
    limits: [{algorithm: leaky_bucket, rate: 1/s, queue: 1, delay: false}]
    missing: skip
  - name: shadow
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1/s, burst: 2}]
    mode: shadow
    missing: skip
  - name: bad
    match: {user: u7}
    limits: blocked
"""
START = 1792886400_000000  # µs
REQUESTS = 4000
DAYS, SECONDS = 8, 240


class SameDecisions(unittest.TestCase):
    def setUp(self):
        self.folder = directory()
        (self.folder / "rules").mkdir()
        (self.folder / "rules" / "shop.yaml").write_text(RULES)
        clock = self.folder / "clock"
        clock.write_bytes(struct.pack("q", START))
        environment = {**os.environ, "LD_PRELOAD": CLOCK, "FROZEN_CLOCK_FILE": str(clock)}
        _, line = start([SLUICED, "--rules", self.folder / "rules", "--grpc", "127.0.0.1:0",
                         "--http", "127.0.0.1:0"], "ready", env=environment)
        host = next(word for word in line.split() if word.startswith("http=")).split("=")[1]
        self.server = http.client.HTTPConnection(host, timeout=60)
        self.addCleanup(self.server.close)
        file = open(clock, "r+b")
        self.addCleanup(file.close)
        self.time = mmap.mmap(file.fileno(), 8)
        self.addCleanup(self.time.close)
        self.random = random.Random(11)

    def ask(self, at, users, costs):
        """Sends a random request at the time `at` (µs). Returns its log line, and True if it was
        denied."""
        self.time[:] = struct.pack("q", at)
        attributes = {"user": f"u{8 - self.random.randrange(1, users + 1)}",
                      "endpoint": self.random.choice(["/pay", "/list", "/queue", "/other"])}
        cost = self.random.choice(costs)
        body = {"domain": "shop", "attributes": attributes, "cost": cost}
        self.server.request("POST", "/v1/check", json.dumps(body))
        answer = json.loads(self.server.getresponse().read())
        return {"time": at, "cost": cost, **attributes}, answer["decision"] == "DECISION_DENIED"

    def replay(self, lines):
        """Replays the lines. Returns [checked requests, denied requests] for each second."""
        log = self.folder / "log.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = subprocess.run([SLUICE, "replay", "--json", "--cost", "$.cost",
                               self.folder / "rules", log],
                              check=True, capture_output=True, text=True, timeout=300)
        over_time = json.loads(done.stdout)["result"]["over_time"]
        self.assertEqual(over_time["seconds"], 1)
        return over_time["checked_denied"]

    def test_replay_and_server_deny_the_same_number_in_each_second(self):
        at = START
        denied, checked, logged = collections.Counter(), collections.Counter(), []
        for _ in range(REQUESTS):
            at += self.random.randrange(60_000)
            line, is_denied = self.ask(at, 8, [1, 1, 1, 2])
            second = (at - START) // 1_000_000
            checked[second] += 1
            denied[second] += is_denied
            logged.append(line)
        self.assertGreater(sum(denied.values()), 500)
        self.assertEqual(self.replay(logged), [[checked[i], denied[i]] for i in range(second + 1)])

    def test_replay_and_server_agree_on_each_request_if_each_second_has_one_request(self):
        for day in range(DAYS):  # after a day, all counters are like new ones
            begin = START + day * 86_400_000_000
            logged, denied = zip(*(
                self.ask(begin + i * 1_000_000 + self.random.randrange(1_000_000), 2, [1, 2, 3, 4])
                for i in range(SECONDS)))
            self.assertIn(sum(denied), range(SECONDS // 5, SECONDS * 4 // 5))
            self.assertEqual(self.replay(logged), [[1, int(it)] for it in denied])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
