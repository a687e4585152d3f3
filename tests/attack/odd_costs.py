"""Odd costs (zero, negative, huge): they must not admit a check or give units back."""

import unittest

import fleet
import grpc

COSTS = (0, 6, 255, 256, 257, 2**31, 2**32, 2**52, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63,
         2**64 - 2**53, 2**64 - 5, 2**64 - 1)
MODES = (0, 1, 3)  # UNSPECIFIED (means CONSUME), CONSUME, CHARGE


class OddCosts(fleet.AttackTest):
    def attack(self):
        for server in range(fleet.SERVERS):
            for endpoint in ("/daily", "/bucket", "/slots"):
                for cost in COSTS:
                    for mode in MODES:
                        self.try_cost(server, endpoint, cost, mode)
                    self.try_cost(server, "/daily", 1, 1)  # denied if no cost has given units back

    def try_cost(self, server, endpoint, cost, mode):
        try:
            answer = self.fleet.check(
                server, fleet.check(endpoint, self.user, cost=cost, mode=mode))
        except grpc.RpcError as error:
            self.assertIn(error.code(), (grpc.StatusCode.INVALID_ARGUMENT,
                                         grpc.StatusCode.DEADLINE_EXCEEDED), f"cost {cost}")
            return
        self.assertLessEqual(cost, 2**53)
        if cost > 0:
            self.note([answer])


if __name__ == "__main__":
    unittest.main()
