"""The rules are replaced while in use: by more rules, then by a mistake, then by the old rules."""

import contextlib

import running
from servers import PATIENCE

LASTS = 0
ANOTHER = """  - name: another
    match: {endpoint: /another}
    limits: [{algorithm: fixed_window, limit: 1, window: 1d}]
"""


def write(stand, text, metric, value):
    """Replaces the rules. Waits until each server has read them: its `metric` is then `value`."""
    replacement = stand.rules.with_suffix(".new")
    replacement.write_text(text, encoding="utf-8")
    replacement.rename(stand.rules)
    for server in stand.servers:
        running.wait_until(lambda: server.metrics()[metric] == value, PATIENCE, "rules are read")


@contextlib.contextmanager
def strike(stand):
    rules = stand.rules.read_text(encoding="utf-8")
    count = stand.servers[0].metrics()["sluice_rules_loaded"]
    write(stand, rules + ANOTHER, "sluice_rules_loaded", count + 1)
    write(stand, "rules: [", "sluice_rules_last_reload_success", 0)
    write(stand, rules, "sluice_rules_last_reload_success", 1)
    yield
