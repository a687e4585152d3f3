#!/usr/bin/python3
"""`sluice replay` decides as a running server does that is asked the same at the same times.

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


class SameDecisions(unittest.TestCase):
    def test_every_interval_and_key(self):
        folder = directory()
        (folder / "rules").mkdir()
        (folder / "rules" / "shop.yaml").write_text(RULES)
        clock = folder / "clock"
        clock.write_bytes(struct.pack("q", START))
        environment = {**os.environ, "LD_PRELOAD": CLOCK, "FROZEN_CLOCK_FILE": str(clock)}
        _, line = start([SLUICED, "--rules", folder / "rules", "--grpc", "127.0.0.1:0", "--http",
                         "127.0.0.1:0"], "ready", env=environment)
        host = next(word for word in line.split() if word.startswith("http=")).split("=")[1]
        server = http.client.HTTPConnection(host, timeout=60)
        self.addCleanup(server.close)
        chosen = random.Random(11)
        at = START
        denied, checked, logged = collections.Counter(), collections.Counter(), []
        with open(clock, "r+b") as file, mmap.mmap(file.fileno(), 8) as time:
            for _ in range(REQUESTS):
                at += chosen.randrange(60_000)
                time[:] = struct.pack("q", at)
                attributes = {"user": f"u{chosen.randrange(8)}",
                              "endpoint": chosen.choice(["/pay", "/list", "/queue", "/other"])}
                cost = chosen.choice([1, 1, 1, 2])
                body = {"domain": "shop", "attributes": attributes, "cost": cost}
                server.request("POST", "/v1/check", json.dumps(body))
                answer = json.loads(server.getresponse().read())
                second = at // 1_000_000
                checked[second] += 1
                denied[second] += answer["decision"] == "DECISION_DENIED"
                logged.append({"time": at, "cost": cost, **attributes})
        log = folder / "log.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in logged))
        done = subprocess.run([SLUICE, "replay", "--json", "--cost", "$.cost", folder / "rules", log],
                              check=True, capture_output=True, text=True, timeout=300)
        result = json.loads(done.stdout)["result"]
        self.assertEqual(result["over_time"]["seconds"], 1)
        first = START // 1_000_000
        expected = [[checked[first + i], denied[first + i]]
                    for i in range(len(result["over_time"]["checked_denied"]))]
        self.assertEqual(sum(pair[0] for pair in expected), REQUESTS)
        self.assertGreater(sum(denied.values()), 500)
        self.assertEqual(result["over_time"]["checked_denied"], expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
