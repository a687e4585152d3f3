"""The real Prometheus scrapes a real sluiced. An alert of docker/prometheus fires when Redis stops
and is resolved when Redis is back.

Usage: prometheus_test.py SLUICED SOURCE_DIRECTORY
"""

import json
import pathlib
import re
import sys
import unittest
import urllib.parse

import running

SLUICED = sys.argv[1]
ALERTS = pathlib.Path(sys.argv[2]) / "docker/prometheus/alerts.yml"

RULES = """
domain: shop
rules:
  - name: site
    limits: [{algorithm: fixed_window, limit: 10, window: 1h}]
"""

CONFIG = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: sluice
    static_configs: [{{targets: ["{target}"]}}]
"""


def start_prometheus(target):
    """Starts Prometheus. Returns the URL of its API. Alerts fire after one second."""
    folder = running.directory()
    patient = ALERTS.read_text(encoding="utf-8")
    hasty, changed = re.subn(r"^( +for:) \w+$", r"\1 1s", patient, flags=re.M)
    assert changed > 5
    (folder / "alerts.yml").write_text(hasty, encoding="utf-8")
    (folder / "prometheus.yml").write_text(CONFIG.format(target=target), encoding="utf-8")
    address = f"127.0.0.1:{running.free_port()}"
    running.start(
        ["prometheus", f"--config.file={folder}/prometheus.yml",
         f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}"],
        "Server is ready to receive web requests")
    return f"http://{address}/api/v1"


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = running.directory()
        cls.redis, url = running.start_redis(cls.folder)
        _, http = running.start_sluiced(SLUICED, RULES, url)
        cls.target = http
        cls.api = start_prometheus(http)

    def ask(self, path, **parameters):
        url = f"{self.api}/{path}?{urllib.parse.urlencode(parameters)}"
        return json.loads(running.get(url))["data"]

    def value(self, expression):
        result = self.ask("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def firing(self):
        return {alert["labels"]["alertname"]: alert for alert in self.ask("alerts")["alerts"]
                if alert["state"] == "firing"}

    def test_alert_fires_until_redis_is_back(self):
        running.wait_until(lambda: self.value("up") == 1, 20, "a scrape")
        running.wait_until(lambda: self.value("sluice_redis_connected") == 1, 20, "Redis is connected")
        self.assertEqual(self.value("sluice_rules_loaded"), 1)
        self.assertNotIn("SluiceRedisDown", self.firing())

        self.redis.kill()
        self.redis.wait()
        alert = running.wait_until(lambda: self.firing().get("SluiceRedisDown"), 20, "the alert")
        self.assertIn(alert["labels"]["loop"], ("io-0", "io-1"))
        self.assertEqual(alert["labels"]["severity"], "page")
        loop = alert["labels"]["loop"]
        self.assertIn(f"{self.target} ({loop}) has no connection", alert["annotations"]["summary"])

        running.start_redis(self.folder)
        running.wait_until(lambda: "SluiceRedisDown" not in self.firing(), 20, "the alert ends")
        self.assertEqual(self.value("sluice_redis_reconnects_total"), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
