"""The environment for faults: a store of real processes, and three sluiced that use it."""

import running
import servers


class Stand:
    """`timeout`: redis.timeout in milliseconds; `rules`: the text of a rule file."""

    def __init__(self, build, timeout, rules):
        self.folder = running.directory()
        self.rules = self.folder / "rules/chaos.yaml"
        self.rules.parent.mkdir()
        self.rules.write_text(rules, encoding="utf-8")
        self.build, self.timeout = build, timeout

    def start_servers(self, url, **environment):
        self.servers = servers.Servers(
            [self.build / "bin/sluiced", "--rules", self.rules.parent, "--redis", url, "--admin",
             "off"], f"{self.timeout}ms", environment)
        self.servers.wait_for_store()
        running.wait_until(self.all_are_counted, servers.PATIENCE, "servers have counted each other")

    def all_are_counted(self):
        shares = [server.metrics()["sluice_fleet_share"] for server in self.servers]
        return max(shares) < 1.5 / len(shares)

    def mend(self):
        """Restarts the processes that a fault has left dead."""
