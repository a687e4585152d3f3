"""Invalid waits: a negative, huge or malformed max_wait does not admit a check early."""

import unittest

import fleet
import grpc

# (seconds, nanos)
WAITS = ((-1, 0), (0, -1), (0, -999_999_999), (0, 10**9), (0, 2**31 - 1), (0, -2**31), (1, -1),
         (-1, 1), (2**63 - 1, 0), (-2**63, 0), (315_576_000_001, 0), (366 * 86_400, 0),
         (365 * 86_400, 0), (86_400, 0), (0, 1), (0, 999), (0, 0))
EARLIEST = 3600  # seconds; the bucket is empty, and gets a token every 4.8 hours


class OddWaits(fleet.AttackTest):
    def attack(self):
        for server in range(fleet.SERVERS):
            for seconds, nanos in WAITS:
                for endpoint in ("/daily", "/bucket"):
                    self.wait(server, endpoint, seconds, nanos)

    def wait(self, server, endpoint, seconds, nanos):
        request = fleet.check(endpoint, self.user)
        request.max_wait.seconds, request.max_wait.nanos = seconds, nanos
        try:
            answer = self.fleet.check(server, request)
        except grpc.RpcError as error:
            self.assertIn(error.code(), (grpc.StatusCode.INVALID_ARGUMENT,
                                         grpc.StatusCode.DEADLINE_EXCEEDED))
            return
        self.assertTrue(0 <= seconds <= 365 * 86_400 and 0 <= nanos < 10**9, (seconds, nanos))
        self.assertLessEqual(answer.wait.seconds, seconds)
        self.note([answer], may_wait=EARLIEST)


if __name__ == "__main__":
    unittest.main()
