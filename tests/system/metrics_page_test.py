"""The metrics page of a real sluiced under load: promtool accepts it, docs/operations.md describes
each metric, and the page has all metrics that the alerts and the dashboard use.

Usage: metrics_page_test.py SLUICE SLUICED SOURCE_DIRECTORY
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

import running

SLUICE, SLUICED = sys.argv[1:3]
SOURCE = pathlib.Path(sys.argv[3])

RULES = """
domain: shop
rules:
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1/h, burst: 5}]
  - name: site
    limits: [{algorithm: fixed_window, limit: 1000000, window: 1h}]
  - name: next-year
    mode: shadow
    limits: [{algorithm: fixed_window, limit: 10, window: 1h}]
  - name: model
    match: {endpoint: /ask}
    limits: [{algorithm: fixed_window, limit: 100, window: 1h, counts: tokens}]
  - name: database
    match: {endpoint: /query}
    limits: [{algorithm: concurrency, limit: 9, ttl: 30s, adapt: {min: 2, latency: 1s}}]
  - name: nobody
    match: {endpoint: /closed}
    limits: blocked
"""


def setUpModule():
    global page
    redis, url = running.start_redis(running.directory())
    grpc, http = running.start_sluiced(SLUICED, RULES, url)

    def check(*arguments):
        return subprocess.run([SLUICE, "check", *arguments, "--addr", grpc],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    for arguments in (
        ["shop", "endpoint=/pay", "user=42", "--repeat", "2000", "--concurrency", "50"],
        ["shop", "endpoint=/pay"],  # the user is missing, so a rule is skipped
        ["shop", "endpoint=/closed"],
        ["shop", "endpoint=/query"],
        ["shop", "endpoint=/ask", "--amount", "tokens=7", "--amount", "tokns=1"],
        ["unheard-of"],
    ):
        assert check(*arguments).returncode in (0, 1), arguments
    subprocess.run([SLUICE, "hold", "shop", "endpoint=/query", "--addr", grpc, "--", "true"],
                   check=True, stdin=subprocess.DEVNULL, timeout=60)
    assert check("d" * 256).returncode == 2, "refused"
    redis.kill()
    redis.wait()
    check("shop", "--repeat", "20")  # decided by on_store_failure
    page = running.get(f"http://{http}/metrics")


def metrics_on(text):
    """Maps the name of each metric to its type and the set of its label names."""
    found = {name: (kind, set()) for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)}
    for sample, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        name = sample if sample in found else re.sub(r"_(bucket|sum|count)$", "", sample)
        found[name][1].update(re.findall(r'(\w+)="', labels))
    for kind, labels in found.values():
        if kind == "histogram":
            labels.discard("le")
    return found


def metrics_described():
    """The metrics of the table in docs/operations.md, in the form that metrics_on returns. Labels
    in parentheses are left out: with a single Redis, they do not exist."""
    text = (SOURCE / "docs/operations.md").read_text(encoding="utf-8")
    section = re.search(r"^## Metrics$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|(.*?)\| .+ \|$", section, re.M)
    return {name: (kind, set(re.findall(r"`(\w+)`", re.sub(r"\(.*\)", "", labels))))
            for name, kind, labels in rows}


def metrics_asked_for(text):
    names = set(re.findall(r"\b(?:sluice|process)_[a-z_]+\b", text))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


class MetricsPageTest(unittest.TestCase):
    def test_promtool_accepts_the_page(self):
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, text=True,
                                 capture_output=True, timeout=60)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_exactly_the_existing_metrics_are_described(self):
        self.maxDiff = None
        self.assertEqual(metrics_on(page), metrics_described())

    def test_alerts_use_existing_metrics(self):
        alerts = (SOURCE / "docker/prometheus/alerts.yml").read_text(encoding="utf-8")
        self.assertGreater(len(metrics_asked_for(alerts)), 5)
        self.assertEqual(metrics_asked_for(alerts) - metrics_on(page).keys(), set())

    def test_dashboard_uses_existing_metrics(self):
        text = (SOURCE / "docker/grafana/dashboard.json").read_text(encoding="utf-8")
        titles = [panel["title"] for panel in json.loads(text)["panels"]]
        self.assertEqual(len(titles), len(set(titles)))
        self.assertGreater(len(metrics_asked_for(text)), 15)
        self.assertEqual(metrics_asked_for(text) - metrics_on(page).keys(), set())

    def test_events_are_counted(self):
        for line in (
            'sluice_checks_total{decision="allowed",domain="shop",rule="per-user",source="store"} 5',
            'sluice_checks_total{decision="denied",domain="shop",rule="nobody",source="rule"} 1',
            'sluice_checks_total{decision="allowed",domain="",rule="",source="no_rule"} 1',
            'sluice_rules_skipped_total{domain="shop",rule="per-user"} 1',
            'sluice_units_total{domain="shop",limit="0",rule="model"} 7',
            'sluice_uncounted_amounts_total{domain="shop"} 1',
            'sluice_adaptive_holds_total{domain="shop",result="in_time",rule="database"} 1',
            'sluice_adaptive_moved_slots_total{direction="up",domain="shop",rule="database"} 0',
            'sluice_refused_total{code="invalid_argument"} 1',
            'sluice_redis_connected{loop="io-0"} 0',
            'sluice_redis_errors_total{kind="lost"} 2',
            'sluice_redis_waiting_checks{loop="io-0"} 0',
            'sluice_rules_loaded 6',
        ):
            self.assertIn(f"\n{line}\n", page)
        denied = 'sluice_checks_total{decision="denied",domain="shop",rule="per-user",source='
        by_source = dict(re.findall(f'^{re.escape(denied)}"(.+)"}} (.+)$', page, re.M))
        self.assertEqual(set(by_source), {"store", "deny_cache"})
        self.assertEqual(sum(map(int, by_source.values())), 1995)
        self.assertRegex(page, r'sluice_checks_total\{.*rule="next-year",source="fallback"\}')
        self.assertRegex(page, r"sluice_check_duration_seconds_count 2026\n")
        self.assertRegex(page, r"sluice_redis_script_calls_total [1-9]")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
