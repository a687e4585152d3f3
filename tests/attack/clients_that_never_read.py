"""Callers send checks and never read: limits hold, and other callers are still answered."""

import time
import unittest

import fleet

CONNECTIONS = 10  # to each server
SECONDS = 1
MEGABYTES = 100


class NeverRead(fleet.AttackTest):
    def attack(self):
        memory = self.fleet.resident_megabytes()
        before = self.fleet.policy_admissions("daily")
        self.rude = [caller for _ in range(CONNECTIONS) for caller in self.callers()]
        self.sent = self.slowest = 0
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for caller in list(self.rude):
                self.send(caller)
            for server in range(fleet.SERVERS):
                begin = time.monotonic()
                self.note([self.fleet.check(server, fleet.check("/daily", self.user))])
                self.slowest = max(self.slowest, time.monotonic() - begin)
        self.grown = self.fleet.resident_megabytes() - memory
        self.unseen = self.fleet.policy_admissions("daily") - before

    def send(self, caller):
        """Sends up to 50 checks. Gives the caller up if its socket accepts no more."""
        caller.sock.settimeout(0.001)
        try:
            for _ in range(50):
                caller.check(fleet.check("/daily", self.user))
                self.sent += 1
        except OSError:
            self.rude.remove(caller)

    def judge(self):
        print(f"{self.sent} checks sent; slowest answer to other callers "
              f"{1000 * self.slowest:.0f} ms; the largest server has grown by {self.grown:.0f} MB")
        self.assertLess(self.slowest, 1)
        self.assertLess(self.grown, MEGABYTES)
        self.assertEqual(self.unseen, 0)
        super().judge()


if __name__ == "__main__":
    unittest.main()
