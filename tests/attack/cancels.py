"""Callers cancel calls and disconnect at various moments. A second later, they hold no slots."""

import time
import unittest

import fleet
import grpc
import running
from sluice.v1 import rate_limiter_pb2 as pb

PAUSES = (0, 0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.003, 0.009, 0.011)  # seconds
ROUNDS = 4


class Cancels(fleet.AttackTest):
    def prepare(self):
        self.leases = []
        self.users = [f"{self.user}-{number}" for number in range(2 * ROUNDS * len(PAUSES))]

    def attack(self):
        callers = self.callers()
        users = iter(self.users)
        for _ in range(ROUNDS):
            for pause in PAUSES:
                self.reset(callers, next(users), pause)
                self.leave(next(users), pause)
        for server, caller in enumerate(callers):
            self.hold(server, caller.answers())

    def reset(self, callers, user, pause):
        for caller in callers:
            headers, message = caller.frames(fleet.check("/slots", user))
            caller.sock.sendall(headers)
            if pause == 0:
                caller.reset()
                headers, message = caller.frames(fleet.check("/slots", user))
                caller.sock.sendall(headers)
            caller.sock.sendall(message)
        time.sleep(pause)
        for caller in callers:
            caller.reset()

    def leave(self, user, pause):
        """Sends checks on new connections, and closes them after `pause` seconds."""
        callers = self.callers()
        for caller in callers:
            caller.check(fleet.check("/slots", user))
        time.sleep(pause)
        for server, caller in enumerate(callers):
            self.hold(server, caller.leave())

    def hold(self, server, answers):
        """Records the leases of callers that received an answer. These callers release them."""
        self.note(answers)
        self.leases += [(server, answer.lease.id) for answer in answers if answer.lease.id]

    def judge(self):
        for server, lease in self.leases:
            running.wait_until(lambda: self.release(server, lease), 5, "a lease is released")
        begin = time.monotonic()
        running.wait_until(self.all_are_free, 1, "all slots are free")
        print(f"all slots free after {time.monotonic() - begin:.3f} s")

    def release(self, server, lease):
        try:
            return self.fleet.call(server, "ReleaseLease", pb.ReleaseLeaseRequest(lease_id=lease),
                                   pb.ReleaseLeaseResponse) is not None
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
            return False

    def all_are_free(self):
        self.users = [user for user in self.users if not self.is_free(user)]
        return not self.users

    def is_free(self, user):
        answer = self.fleet.check(0, fleet.check("/slots", user, cost=0))
        return answer.source == pb.SOURCE_STORE and answer.limits[0].remaining == fleet.LIMIT


if __name__ == "__main__":
    unittest.main()
