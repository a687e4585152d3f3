"""Deadlines too short for Redis: they do not count as an outage and admit nothing."""

import unittest

import fleet

TIMEOUTS = ("1n", "500n", "1u", "20u", "100u", "200u", "500u", "1m", "1200u", "2m", "4m", "8m",
            "10m", "11m", "12500u", "15m", "20m", "00000000n", "99999999n")


class ShortDeadlines(fleet.AttackTest):
    rounds = 20

    def attack(self):
        for caller in self.callers():
            for _ in range(self.rounds):
                for timeout in TIMEOUTS:
                    for endpoint in self.endpoints:
                        caller.check(fleet.check(endpoint, self.user), timeout)
                self.note(caller.answers())


class ShortDeadlinesWhereOutagesAllow(ShortDeadlines):
    """redis.timeout is far longer than the callers' deadlines, so no failure policy applies."""
    flags = ("--redis-timeout", "900ms")
    endpoints = ("/open",)
    rounds = 5


if __name__ == "__main__":
    unittest.main()
