"""A proxy between callers and Sluice. It sends every message to Sluice twice.

For a check, the caller gets one of the two answers. If the other check took units, the
proxy gives them back: it settles the lease with 0, like a server that cannot deliver an answer. A
check that ended without an answer may have been counted: `unanswered` has the amounts of such
checks, summed for each customer.
"""

import asyncio
import collections

import grpc

SERVICE = "/sluice.v1.RateLimiter/"


class Twice:
    """An async context manager. After it is entered, `address` is the proxy's address."""

    def __init__(self, pb, servers):
        self._pb = pb
        self._servers = "ipv4:" + ",".join(servers)
        self.unanswered = collections.Counter()  # by customer and amount
        self.messages = 0
        self._background = set()

    async def __aenter__(self):
        self._channel = grpc.aio.insecure_channel(self._servers, [
            ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)])
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers([self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_):
        for task in list(self._background):
            task.cancel()
        await self._server.stop(None)
        await self._channel.close()

    async def settled(self):
        """Waits until all units that were taken twice are given back."""
        while self._background:
            await asyncio.gather(*self._background)

    def service(self, details):  # of grpc.GenericRpcHandler
        method = details.method

        async def forward(message, context):
            if method == SERVICE + "CheckLimit":
                return await self._check(message, context)
            self._run(self._ignored(method, message, context.time_remaining()))
            return await self._send(method, message, context.time_remaining(), context)

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _check(self, message, context):
        self._run(self._check_and_give_back(message, context.time_remaining()))
        try:
            return await self._send(SERVICE + "CheckLimit", message, context.time_remaining(), context)
        except BaseException:  # an error, or the caller has canceled
            self._count(message)
            raise

    async def _send(self, method, message, timeout, context):
        try:
            return await self._call(method, message, timeout)
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details())

    async def _call(self, method, message, timeout):
        self.messages += 1
        return await self._channel.unary_unary(method)(message, timeout=timeout)

    async def _ignored(self, method, message, timeout):
        try:
            await self._call(method, message, timeout)
        except grpc.aio.AioRpcError:
            pass

    async def _check_and_give_back(self, message, timeout):
        try:
            answer = await self._call(SERVICE + "CheckLimit", message, timeout)
        except grpc.aio.AioRpcError:
            self._count(message)
            return
        response = self._pb.CheckLimitResponse.FromString(answer)
        if not response.lease.id:
            return
        unsettled = {self._pb.OUTCOME_QUEUED}
        if response.source == self._pb.SOURCE_FALLBACK:
            # The lease is not found until its server reaches the store.
            unsettled.add(self._pb.OUTCOME_NOT_FOUND)
        request = self._pb.CheckLimitRequest.FromString(message)
        nothing = dict.fromkeys(["requests", *request.amounts], 0)
        settlement = self._pb.SettleLeaseRequest(lease_id=response.lease.id, cost=0, amounts=nothing)
        while True:
            try:
                stored = await self._call(SERVICE + "SettleLease", settlement.SerializeToString(), 5)
                if self._pb.SettleLeaseResponse.FromString(stored).outcome not in unsettled:
                    return
            except grpc.aio.AioRpcError:
                pass
            await asyncio.sleep(0.2)

    def _count(self, message):
        request = self._pb.CheckLimitRequest.FromString(message)
        customer = request.attributes["customer"]
        for name, value in request.amounts.items():
            self.unanswered[customer, name] += value
        self.unanswered[customer, "requests"] += 0 if request.HasField("cost") else 1

    def _run(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
