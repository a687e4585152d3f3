"""Floods of distinct keys: memory stays bounded, and other users' counters are kept."""

import json
import subprocess
import unittest

import fleet

MAX_KEYS = 5_000
MEGABYTES = 100


class KeyFlood(fleet.AttackTest):
    flags = ("--max-keys", str(MAX_KEYS))

    def attack(self):
        before = self.fleet.resident_megabytes()
        floods = [self.flood(address) for address in self.fleet.addresses]
        while any(flood.poll() is None for flood in floods):
            self.note(self.fleet.check(server, fleet.check("/daily", self.user))
                      for server in range(fleet.SERVERS))
        self.grown = self.fleet.resident_megabytes() - before
        self.checks = sum(json.loads(flood.communicate()[0])["checks"] for flood in floods)

    def flood(self, address):
        """Sends checks for random users."""
        command = [fleet.SLUICE, "bench", "shop", "endpoint=/daily", "--addr", address, "--json",
                   "--rpc", "batch", "--checks", "100", "--in-flight", "4", "--connections", "4",
                   "--keys", "9000000", "--duration", "1s"]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def judge(self):
        print(f"{self.checks} checks; the largest server has grown by {self.grown:.0f} MB")
        self.assertGreater(self.checks, MAX_KEYS)
        self.assertLess(self.grown, MEGABYTES)
        super().judge()


if __name__ == "__main__":
    unittest.main()
