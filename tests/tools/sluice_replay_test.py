#!/usr/bin/python3
"""`sluice replay` on logs whose counts the test knows.

Usage: sluice_replay_test.py SLUICE SOURCE_DIR
REPLAYED_LINES: the number of lines in the log that the test recounts by itself (default: 30000).
"""

import collections
import csv
import datetime
import gzip
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

SLUICE, SOURCE = (pathlib.Path(it).resolve() for it in sys.argv[1:3])
LINES = int(os.environ.get("REPLAYED_LINES", "30000"))
LIMIT = 4  # requests of a client in a clock-aligned minute
RULES = f"""domain: shop
rules:
  - name: per-client
    per: [client_ip]
    limits:
      - {{algorithm: fixed_window, limit: {LIMIT}, window: 1m, align: clock}}
    missing: skip
"""
BUCKET = """domain: shop
rules:
  - name: per-client
    per: [client_ip]
    limits:
      - {algorithm: token_bucket, rate: 1/s, burst: 2}
    missing: skip
"""
START = 1792886400  # 2026-10-25 00:00:00 UTC, an hour before Europe's clocks go back
AGENT = '200 5 "-" "curl/8"'


def stamp(second, hours):
    zone = datetime.timezone(datetime.timedelta(hours=hours))
    return datetime.datetime.fromtimestamp(second, zone)


def nginx(client, second, hours=0, target="/pay?x=1"):
    at = stamp(second, hours).strftime("%d/%b/%Y:%H:%M:%S %z")
    return f'{client} - - [{at}] "GET {target} HTTP/1.1" {AGENT}\n'


class Replay(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="sluice-replay-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.rules = self.write("rules.yaml", RULES)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_tool(self, *arguments, status=0, **options):
        done = subprocess.run([SLUICE, "replay", *map(str, arguments)], capture_output=True,
                              text=True, timeout=300, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def replay(self, *arguments, **options):
        return json.loads(self.run_tool("--json", *arguments, **options).stdout)

    def test_counts_equal_a_naive_recount_across_zones_and_daylight_saving(self):
        chosen = random.Random(7)
        lines = []  # (second at which it is logged, text)
        asked = collections.Counter()
        for i in range(LINES):
            second = START + i // 4
            client = f"10.0.0.{chosen.randrange(40)}"
            # Berlin goes from +2 to +1 at 01:00 UTC; the others keep their offset.
            berlin = 2 if second < START + 3600 else 1
            hours = chosen.choice([berlin, 0, -7, 5.5])
            lines.append((second + chosen.randrange(4), nginx(client, second, hours)))
            asked[client, second // 60] += 1
        lines.sort(key=lambda line: line[0])
        log = self.write("access.log", "".join(text for _, text in lines))
        found = self.replay("--reorder", "5s", self.rules, log)
        denied = sum(max(0, count - LIMIT) for count in asked.values())
        self.assertGreater(denied, 1000)
        self.assertEqual(found["requests"], LINES)
        self.assertEqual(found["late"], 0)
        rule = found["result"]["rules"][0]
        self.assertEqual((rule["checked"], rule["denied"]), (LINES, denied))
        self.assertEqual(sum(interval[1] for interval in rule["over_time"]), denied)
        by_client = collections.Counter()
        for (client, _), count in asked.items():
            by_client[client] += max(0, count - LIMIT)
        most = sorted(by_client.items(), key=lambda it: (-it[1], it[0]))[:10]
        self.assertEqual([(it["key"], it["denied"]) for it in rule["most_denied"]],
                         [("client_ip=" + client, count) for client, count in most])
        self.assertEqual(self.replay("--reorder", "5s", self.rules, log), found)
        self.assertGreater(self.replay("--reorder", "1s", self.rules, log)["late"], 0)
        # If the log is split into two files, the result is the same, although the files are given
        # in the wrong order and one is compressed.
        half = len(lines) // 2
        second_half = self.write("b.log", "".join(text for _, text in lines[half:]))
        packed = self.folder / "a.log.gz"
        packed.write_bytes(gzip.compress("".join(text for _, text in lines[:half]).encode()))
        both = self.replay("--reorder", "5s", self.rules, second_half, packed)
        self.assertEqual(both["result"], found["result"])

    def test_requests_with_times_in_whole_seconds_are_spread_over_the_second(self):
        rules = self.write("even.yaml", BUCKET.replace("1/s", "20/s").replace("burst: 2", "burst: 1"))
        log = self.write("even.log", "".join(nginx("1.1.1.1", START + i // 20) for i in range(200)))
        self.assertEqual(self.replay(rules, log)["result"]["denied"], 0)
        exact = self.write("exact.jsonl", "".join(
            json.dumps({"time": f"{START + i // 20}.000", "client_ip": "1.1.1.1"}) + "\n"
            for i in range(200)))
        self.assertEqual(self.replay(rules, exact)["result"]["denied"], 190)

    def test_lines_that_are_not_requests_are_counted_and_shown(self):
        good = [nginx("1.1.1.1", START + i) for i in range(3)]
        log = self.write("torn.log", good[0] + good[1][:70] + "\nhello\n" + good[1] + good[2][:-3])
        found = self.replay(self.rules, log)
        self.assertEqual((found["lines"], found["requests"], found["not_understood"]), (5, 2, 3))
        self.assertEqual([it["line"] for it in found["faults"]], [2, 3, 5])
        self.assertIn(f"{log}, line 3: is not in the combined format",
                      self.run_tool(self.rules, log).stdout)
        cut = self.write("cut.log", good[0] + good[0].partition(AGENT)[0] + '200 9 "http://a\n')
        self.assertEqual(self.replay(self.rules, cut)["faults"][0]["what"], "ends within its referer")
        packed = self.folder / "torn.gz"
        packed.write_bytes(gzip.compress("".join(good[:1] * 3000).encode())[:-20])
        self.assertIn("gzip data ends early", self.replay(self.rules, packed)["faults"][-1]["what"])
        torn = self.write("torn.jsonl", f'{{"time": {START}, "client_ip": "a"}}\n{{"time": {START}\n')
        self.assertEqual(self.replay(self.rules, torn)["not_understood"], 1)
        empty = self.write("empty.log", "")
        self.assertEqual(self.run_tool(self.rules, empty, status=2).stderr,
                         f"sluice: {empty}: is empty\n")

    def test_fields_of_json_and_csv_are_mapped(self):
        rules = self.write("tokens.yaml", """domain: shop
rules:
  - name: tokens
    per: [user]
    limits:
      - {algorithm: fixed_window, limit: 10, window: 1h, counts: [tokens]}
      - {algorithm: fixed_window, limit: 5, window: 1d}
    missing: skip
""")
        # The third request of user "a" exceeds the limit of 10 tokens (4 + 4 + 4). The first
        # request of user "b" costs 6, which exceeds the limit of 5.
        rows = [("a", 4, 1), ("a", 4, 1), ("a", 4, 1), ("b", 1, 6), ("b", 1, 5)]
        objects = "".join(
            json.dumps({"at": (START + i) * 1000, "who": {"id": user}, "n": [tokens], "cost": cost})
            + "\n" for i, (user, tokens, cost) in enumerate(rows))
        log = self.write("a.jsonl", objects)
        json_map = ("--attribute", "user=$.who.id", "--time", "$.at", "--amount", "tokens=$.n[0]",
                    "--cost", "$.cost")
        found = self.replay(*json_map, rules, log)["result"]["rules"][0]
        self.assertEqual((found["checked"], found["denied"]), (5, 2))
        piped = self.replay(*json_map, rules, "-", input=objects)["result"]["rules"][0]
        self.assertEqual(piped, found)
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["when", "the user", "n", "cost"])
        for i, (user, tokens, cost) in enumerate(rows):
            writer.writerow([stamp(START + i, 0).isoformat(), f'{user}, "x"', tokens, cost])
        table = self.write("a.csv", text.getvalue())
        whole = self.replay("--attribute", "user=$.the user", "--time", "$.when", "--amount",
                            "tokens=$.n", "--cost", "$.cost", rules, table)
        self.assertEqual((whole["lines"], whole["not_understood"]), (5, 0))
        self.assertFalse([it for it in whole["notes"] if "left out" in it])
        found = whole["result"]["rules"][0]
        self.assertEqual((found["checked"], found["denied"]), (5, 2))
        self.assertEqual({it["key"] for it in found["most_denied"]},
                         {'user=a,%20"x"', 'user=b,%20"x"'})
        wrong = self.run_tool("--attribute", "user=$.nobody", "--time", "$.when", rules, table,
                              status=2)
        self.assertIn('no field "nobody"; its fields are when, the user, n, cost', wrong.stderr)
        unmapped = self.run_tool("--time", "$.at", rules, log)
        self.assertIn("No line has the attribute user", unmapped.stdout)
        self.assertIn("no --amount tokens=$.FIELD is given, so limits that count tokens",
                      unmapped.stderr)
        self.assertNotIn("No line has the field", unmapped.stdout)
        misspelled = self.run_tool("--time", "$.at", "--cost", "$.cots", "--amount", "tokens=$.n.", rules, log)
        self.assertIn("No line has the field of --cost, so each request has cost 1",
                      misspelled.stdout)
        self.assertIn("No line has the field of --amount tokens, so each request has amount 0",
                      misspelled.stdout)
        self.assertEqual(self.run_tool(*json_map, rules, log).stderr, "")

    def test_log_lines_of_the_tool_go_to_stderr(self):
        log = self.write("a.jsonl", json.dumps({"time": START, "client_ip": "a", "n": 1}) + "\n")
        done = self.run_tool("--json", "--amount", "n=$.n", self.rules, log)
        json.loads(done.stdout)
        self.assertIn('sluice: domain "shop": a check has an amount "n"', done.stderr)

    def test_keys_of_colocated_rules_name_the_callers(self):
        rules = self.write("colocated.yaml",
                           RULES.replace("rules:", "colocate: client_ip\nrules:", 1))
        log = self.write("six.log", nginx("1.1.1.1", START) * (LIMIT + 2))
        found = self.replay(rules, log)["result"]["rules"][0]
        self.assertEqual([it["key"] for it in found["most_denied"]], ["client_ip=1.1.1.1"])

    def test_keys_cannot_control_the_terminal(self):
        rules = self.write("path.yaml", RULES.replace("client_ip", "endpoint"))
        log = self.write("odd.log", nginx("1.1.1.1", START, 0, "/\u202e\u009b31m") * (LIMIT + 1))
        self.assertIn(r"    endpoint=%2F\xe2\x80\xae\xc2\x9b31m: 1,",
                      self.run_tool(rules, log).stdout)

    def busy_log(self):
        chosen = random.Random(3)
        texts = []
        for i in range(20_000):
            client = min(chosen.randrange(100), chosen.randrange(100))
            texts.append(nginx(f"10.1.1.{client}", START + i // 10))
        return self.write("busy.log", "".join(texts))

    def test_against_compares_two_sets_of_rules(self):
        log = self.busy_log()
        tight = self.write("tight.yaml", RULES.replace(f"limit: {LIMIT}", "limit: 1"))
        found = self.replay("--against", self.rules, tight, log)
        alone = self.replay(self.rules, log)
        self.assertEqual(found["against"], alone["result"])
        self.assertEqual(found["newly_denied"],
                         found["result"]["denied"] - found["against"]["denied"])
        self.assertGreater(found["newly_denied"], 0)
        self.assertEqual(found["newly_allowed"], 0)
        turned = self.replay("--against", tight, self.rules, log)
        self.assertEqual((turned["newly_allowed"], turned["newly_denied"]),
                         (found["newly_denied"], 0))

    def test_suggested_limits_deny_at_most_the_given_share_of_requests(self):
        log = self.busy_log()
        for share in (0.1, 5):
            for text in (BUCKET.replace("1/s", "1/m"), BUCKET.replace("1/s", "900/s")):
                rules = self.write("start.yaml", text)
                printed = self.run_tool("--suggest", f"{share}%", rules, log).stdout
                suggested = self.write("suggested.yaml", printed)
                result = self.replay(suggested, log)["result"]
                self.assertLessEqual(result["denied"], result["checked"] * share / 100)
                # Limits that are 10 % lower deny more than this share.
                def lower(match):
                    return f"{match[1]}{max(1, int(int(match[2]) * 0.9))}"
                tighter = self.write("tighter.yaml",
                                     re.sub(r"((?:rate|burst): )(\d+)", lower, printed))
                self.assertNotEqual(tighter.read_text(), printed)
                result = self.replay(tighter, log)["result"]
                self.assertGreater(result["denied"], result["checked"] * share / 100)
        refused = self.run_tool("--suggest", "1%", self.rules, "-", status=2, input="")
        self.assertIn("standard input", refused.stderr)

    def test_the_five_commands_of_docs_replay_md_work(self):
        page = (SOURCE / "docs/replay.md").read_text(encoding="utf-8")
        self.write("guess.yaml", re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
        commands = re.findall(r"(?m)^\d\. `sluice ([^`]*)`", page)
        self.assertEqual(len(commands), 5)
        self.busy_log().rename(self.folder / "access.log.1")
        (self.folder / "config").mkdir()
        (self.folder / "config/rules").mkdir()
        self.write("config/rules/site.yaml", RULES.replace("domain: shop", "domain: site"))
        for command in commands:
            subprocess.run(f"{SLUICE} {command}", shell=True, check=True, cwd=self.folder,
                           timeout=300, stdout=subprocess.DEVNULL)
        self.assertIn("rules:", (self.folder / "limits.yaml").read_text())
        self.assertIn("<svg", (self.folder / "report.html").read_text())

    def test_html_report_is_self_contained(self):
        evil = "/<script>alert(1)</script>"
        rules = self.write("path.yaml", RULES.replace("client_ip", "endpoint"))
        log = self.write("evil.log", "".join(nginx("1.1.1.1", START + i, 0, evil) for i in range(9)))
        page = self.folder / "report.html"
        self.run_tool("--html", page, rules, log)
        text = page.read_text(encoding="utf-8")
        self.assertIn("<svg", text)
        self.assertIn("9 requests, 2026-10-25 00:00:00", text)
        self.assertIn("script>alert(1)", text)
        self.assertNotRegex(text, r"<script|src=|href=|https?://|url\(")

    def test_replay_stops_when_the_counters_do_not_fit_in_memory(self):
        log = self.write("many.log", "".join(
            nginx(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", START + i // 1000) for i in range(20_000)))
        rules = self.write("hour.yaml", RULES.replace("1m", "1d"))
        found = self.replay("--memory", "2MiB", rules, log, status=2)
        counters = found["result"]["counters"]
        self.assertGreater(counters, 1000)
        self.assertIn(f"do not fit in --memory; there are {counters} already", found["stopped"])
        self.assertRegex(found["stopped"], rf"line {counters + 1}:")
        self.assertEqual(found["result"]["checked"], counters)

    def test_replay_without_decided_requests_has_no_times(self):
        full = self.write("full.log", nginx("10.0.0.1", START) * 110_000)
        said = self.run_tool("--memory", "2MiB", self.rules, full, status=2).stdout
        self.assertRegex(said, r"^[0-9,]+ requests, none decided\n")
        self.assertIn("give more --memory, or less --reorder", said)
        self.assertNotIn("1970", said)
        found = self.replay("--memory", "2MiB", self.rules, full, status=2)
        self.assertEqual((found["first"], found["last"]), (None, None))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
