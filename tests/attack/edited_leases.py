"""Modified lease ids cannot extend a ttl or renew other callers' leases."""

import hashlib
import itertools
import unittest

import fleet
import grpc
import running
from sluice.v1 import rate_limiter_pb2 as pb

TEN_YEARS = 315_360_000_000_000  # microseconds


class EditedLeases(fleet.AttackTest):
    def prepare(self):
        answer = running.wait_until(lambda: self.take(), 10, "a lease of Redis")
        self.lease = answer.lease.id
        self.ttl = answer.lease.ttl.seconds
        self.turns = itertools.cycle(range(fleet.SERVERS))

    def take(self):
        answer = self.fleet.check(0, fleet.check("/slots", self.user))
        self.assertEqual(answer.decision, pb.DECISION_ALLOWED)
        return answer if answer.source == pb.SOURCE_STORE else None

    def attack(self):
        for place in range(len(self.lease)):
            for bit in (1, 2, 16):
                flipped = chr(ord(self.lease[place]) ^ bit)
                self.refused(self.lease[:place] + flipped + self.lease[place + 1:])
        version, bits, ttl, rest = self.lease.split(".", 3)
        where, key = rest.split(" ")
        for other in (TEN_YEARS, int(ttl) + 1, int(ttl) - 1, 1000):
            self.refused(f"{version}.{bits}.{other}.{rest}")
        for keys in (key.replace(self.user, "nobody"), f"{key} {key}.2", f"{key}.2",
                     key + " " + key.replace(self.user, "nobody")):
            self.refused(f"{version}.{bits}.{ttl}.{where} {keys}")
        self.refused(f"{version}.{bits}.{ttl}.local {key}")
        self.refused(f"1.{bits}.{TEN_YEARS}.{where} {key}")
        # An id in the form that the first version of the server returned, for the same slot.
        bound = bytes.fromhex(bits) + int(ttl).to_bytes(8, "little")
        slot = hashlib.sha256(bound).hexdigest()[:32]
        self.renewed(f"1.{slot}.{TEN_YEARS}.{where} {key}", self.ttl)

    def refused(self, lease):
        self.renewed(lease, 0)

    def renewed(self, lease, longest):
        """Renews on the next server. Expects an error, or a ttl of at most `longest` seconds."""
        try:
            answer = self.fleet.call(next(self.turns), "RenewLease",
                                     pb.RenewLeaseRequest(lease_id=lease), pb.RenewLeaseResponse)
            self.assertLessEqual(answer.ttl.seconds, longest, lease)
            self.assertGreater(longest, 0, lease)
        except grpc.RpcError as error:
            self.assertIn(error.code(), (
                grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), lease)

    def judge(self):
        """The lease is unchanged, and its original id releases it."""
        peek = fleet.check("/slots", self.user, cost=0)
        limit = self.fleet.check(0, peek).limits[0]
        self.assertEqual(limit.remaining, fleet.LIMIT - 1)
        self.assertLessEqual(limit.reset_after.seconds, self.ttl)
        self.fleet.call(1, "ReleaseLease", pb.ReleaseLeaseRequest(lease_id=self.lease),
                        pb.ReleaseLeaseResponse)
        self.assertEqual(self.fleet.check(2, peek).limits[0].remaining, fleet.LIMIT)


if __name__ == "__main__":
    unittest.main()
