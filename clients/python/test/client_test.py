#!/usr/bin/python3
"""Tests what only the Python client promises, against a server that answers as each test tells it."""

import asyncio
import collections
import threading
import tracemalloc
import types
import unittest
from concurrent import futures
from unittest import mock

import grpc
from sluice_client import CLOSED, OPEN, Client
from sluice_client import rate_limiter_pb2 as pb
from sluice_client.leases import LeaseKeeper

SOON = 300  # seconds; long, because the machine may be busy
REQUESTS = {"CheckLimit": pb.CheckLimitRequest, "RenewLease": pb.RenewLeaseRequest,
            "ReleaseLease": pb.ReleaseLeaseRequest, "SettleLease": pb.SettleLeaseRequest}


class Server:
    """Grants each check a lease. For each call whose method is in `codes`, fails with the next
    code."""

    def __init__(self, test, ttl=600.0):
        self._ttl = ttl
        self.codes = {}  # by method: the codes of the next answers
        self._calls = collections.Counter()
        self.last = {}  # by method: the last request
        self._changed = threading.Condition()
        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "sluice.v1.RateLimiter", {name: self._handler(name) for name in REQUESTS})])
        self.address = "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
        server.start()
        test.addCleanup(server.stop, None)

    def _handler(self, name):
        def answer(request, context):
            with self._changed:
                self._calls[name] += 1
                self.last[name] = request
                self._changed.notify_all()
            if self.codes.get(name):
                context.abort(self.codes[name].pop(0), "as the test says")
            if name == "SettleLease":
                return pb.SettleLeaseResponse(outcome=pb.OUTCOME_SETTLED)
            if name != "CheckLimit":
                return getattr(pb, f"{name}Response")()
            response = pb.CheckLimitResponse(decision=pb.DECISION_ALLOWED)
            response.lease.id = "lease"
            response.lease.ttl.FromNanoseconds(round(self._ttl * 1e9))
            return response

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=REQUESTS[name].FromString,
            response_serializer=lambda response: response.SerializeToString())

    def wait_for(self, name, calls):
        with self._changed:
            assert self._changed.wait_for(lambda: self._calls[name] >= calls, SOON), name


class Token:
    """A function for the option `token`, which can fail."""

    def __init__(self):
        self.failures = 0  # of the next calls
        self.failed = threading.Event()

    def __call__(self):
        if self.failures:
            self.failures -= 1
            self.failed.set()
            raise OSError("the file is being replaced")
        return "token"


class PythonClientTest(unittest.TestCase):
    def client(self, server, **options):
        client = Client(server.address, deadline=SOON, **{"drain": SOON, **options})
        self.addCleanup(client.close)
        return client

    def test_a_failure_of_the_token_during_a_check_reaches_the_caller(self):
        token = Token()
        client = self.client(Server(self), token=token)
        token.failures = 2
        with self.assertRaises(OSError):
            client.check("shop", {})
        with self.assertRaises(OSError):
            asyncio.run(client.check_async("shop", {}))

    def test_a_lease_is_renewed_after_a_failure_of_the_token(self):
        token, server = Token(), Server(self, ttl=0.3)
        with self.assertLogs("sluice_client"), self.client(server, token=token).limited("shop", {}):
            token.failures = 1
            self.assertTrue(token.failed.wait(SOON))
            server.wait_for("RenewLease", 1)

    def test_a_release_and_a_settlement_are_repeated_after_a_failure_of_the_token(self):
        token, server = Token(), Server(self)
        client = self.client(server, token=token)
        with client.limited("shop", {}):
            token.failures = 1
        server.wait_for("ReleaseLease", 1)
        with client.reserve("shop", {}):
            token.failures = 1
        server.wait_for("SettleLease", 1)
        self.assertEqual(client.close(), 0)

    def test_leases_are_renewed_and_released_after_unavailable(self):
        server = Server(self, ttl=0.3)
        server.codes = {"RenewLease": [grpc.StatusCode.UNAVAILABLE] * 3,
                        "ReleaseLease": [grpc.StatusCode.UNAVAILABLE] * 6}  # more than gRPC repeats
        client = self.client(server)
        with client.limited("shop", {}):
            server.wait_for("RenewLease", 4)
        client.close()
        server.wait_for("ReleaseLease", 7)

    def test_a_failure_of_overloaded_does_not_change_the_result_of_the_work(self):
        server, overloaded = Server(self), mock.Mock(side_effect=OSError)
        client = self.client(server, overloaded=overloaded)
        with self.assertLogs("sluice_client"), client.limited("shop", {}):
            pass
        client.close()
        overloaded.assert_called_once_with()
        self.assertEqual(server.last["ReleaseLease"].hold_outcome, pb.HOLD_OUTCOME_OK)

    def test_work_may_outlive_its_client(self):
        client = self.client(Server(self))
        with client.limited("shop", {}):
            client.close()
        client = self.client(Server(self))
        with self.assertLogs("sluice_client") as logs, client.reserve("shop", {}):
            self.assertEqual(client.close(), 0)
        self.assertIn("the client is closed", logs.output[0])
        self.assertEqual(client.close(), 1)

    def test_a_check_of_a_closed_client_has_no_answer(self):
        for policy, allowed in (OPEN, True), (CLOSED, False):
            client = self.client(Server(self), without_answer=policy)
            client.close()
            for decision in client.check("shop", {}), asyncio.run(client.check_async("shop", {})):
                self.assertEqual((decision.allowed, decision.failure), (allowed, "the client is closed"))

    def test_ended_leases_need_no_memory(self):
        call = types.SimpleNamespace(code=lambda: grpc.StatusCode.OK, result=pb.ReleaseLeaseResponse,
                                     add_done_callback=lambda done: done(call))
        keeper = LeaseKeeper(lambda *_: call, lambda code: False, 1, 1)
        self.addCleanup(keeper.close, 0)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for index in range(10_000):
            lease = pb.Lease(id=str(index))
            lease.ttl.FromSeconds(600)
            keeper.hold(lease)
            keeper.release(lease.id)
        self.assertLess(tracemalloc.get_traced_memory()[0], 1 << 20)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
