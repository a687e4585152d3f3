"""Unknown modes, and refunds without a charge: they must not give units back."""

import unittest

import fleet
import grpc
from sluice.v1 import rate_limiter_pb2 as pb

UNKNOWN = (5, 6, 7, 100, 2**31 - 1, -1, -2**31)  # in a store, 5 is renew and 6 is settle
REFUNDS = (1, 5, 1000, 2**53)
CHARGED_AT = ((0, 0), (1, 0), (-1, 0), (1_000_000_000, 999_999_999), (1_000_000_000, -1))


class OddModes(fleet.AttackTest):
    def attack(self):
        new = self.user + "-refunded"
        for server in range(fleet.SERVERS):
            for mode in UNKNOWN:
                with self.assertRaises(grpc.RpcError) as raised:
                    self.fleet.check(server, fleet.check("/daily", self.user, mode=mode))
                self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            for endpoint in ("/daily", "/bucket"):
                self.refund(server, endpoint, new)
                self.refund_another_window(server, endpoint)
                self.note([self.fleet.check(server, fleet.check(endpoint, self.user))])
        self.spend(new)

    def refund(self, server, endpoint, user):
        """Refunds more than was charged."""
        for cost in REFUNDS:
            self.fleet.check(server, fleet.check(endpoint, user, cost=cost, mode=pb.MODE_REFUND))

    def refund_another_window(self, server, endpoint):
        """Refunds charges of other windows. A fixed window ignores or refuses such refunds."""
        for seconds, nanos in CHARGED_AT if endpoint == "/daily" else ():
            request = fleet.check(endpoint, self.user, cost=1, mode=pb.MODE_REFUND)
            request.charged_at.seconds, request.charged_at.nanos = seconds, nanos
            try:
                self.fleet.check(server, request)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def spend(self, user):
        """Counts the admissions of a user for whom nothing was charged."""
        self.refunded = {"STORE": 0, "FALLBACK": 0}
        for server in range(fleet.SERVERS):
            for _ in range(fleet.LIMIT + 1):
                answer = self.fleet.check(server, fleet.check("/daily", user))
                if answer.decision == pb.DECISION_ALLOWED:
                    self.refunded[pb.Source.Name(answer.source).removeprefix("SOURCE_")] += 1

    def judge(self):
        super().judge()
        print(f"admissions of users that only had refunds: {self.refunded}")
        self.assertLessEqual(self.refunded["STORE"], fleet.LIMIT)
        # During an outage, the whole fleet may admit up to LIMIT further checks.
        self.assertLessEqual(sum(self.refunded.values()), 2 * fleet.LIMIT)


if __name__ == "__main__":
    unittest.main()
