"""The client: one channel, a deadline for every check, and a decision even if no server answers."""

import asyncio
import contextlib
import functools
import inspect
import sys
import threading
import time

import grpc
from sluice.v1 import rate_limiter_pb2 as pb

OPEN, CLOSED = "open", "closed"

# Mistakes of the caller. Other errors mean that there is no decision.
_MISTAKES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}


class Limited(Exception):
    """The request was denied. `retry_after`: seconds until a retry can succeed; None: never."""

    def __init__(self, decision):
        super().__init__("rate limited")
        self.decision = decision
        self.retry_after = decision.retry_after


class Decision:
    """The result of a check. `answered` is False if the client decided, because no server answered."""

    def __init__(self, allowed, response=None):
        self.allowed = allowed
        self.answered = response is not None
        self.response = response or pb.CheckLimitResponse()

    @property
    def wait(self):
        """Seconds to wait before the allowed request starts."""
        return _seconds(self.response.wait)

    @property
    def retry_after(self):
        """Seconds until a retry can succeed; None: never, or unknown."""
        response = self.response
        return _seconds(response.retry_after) if response.HasField("retry_after") else None


class Client:
    """Asks one address, such as "127.0.0.1:8081", "unix:/run/sluice/grpc.sock" or "dns:///sluice:8081".

    deadline: seconds that a check may take. without_answer: OPEN (allow) or CLOSED (deny), if no
    server answers in time. max_wait: the longest wait in seconds that a check accepts, unless it says
    otherwise. credentials: of grpc.ssl_channel_credentials; None: plain text.

    Thread-safe. A process needs only one client, which has one channel.
    """

    def __init__(self, address="127.0.0.1:8081", *, deadline=0.1, without_answer=OPEN,
                 max_wait=None, credentials=None):
        if without_answer not in (OPEN, CLOSED):
            raise ValueError(f"without_answer is {without_answer!r}; allowed are OPEN and CLOSED")
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
        ]
        self._channel = (grpc.secure_channel(address, credentials, options) if credentials
                         else grpc.insecure_channel(address, options))
        self._deadline = deadline
        self._open = without_answer == OPEN
        self._max_wait = max_wait
        self._releases = set()  # pending calls
        self._check = self._method("CheckLimit", pb.CheckLimitRequest, pb.CheckLimitResponse)
        self._renew = self._method("RenewLease", pb.RenewLeaseRequest, pb.RenewLeaseResponse)
        self._release = self._method("ReleaseLease", pb.ReleaseLeaseRequest, pb.ReleaseLeaseResponse)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Waits until the server has answered pending releases, for at most 5 s."""
        for release in list(self._releases):
            release.exception()
        self._channel.close()

    def check(self, domain, attributes, *, cost=1, max_wait=None):
        """Asks whether a request is allowed. Raises grpc.RpcError only if the request is invalid."""
        try:
            return _decided(self._check(self._request(domain, attributes, cost, max_wait),
                                        timeout=self._deadline))
        except grpc.RpcError as error:
            return self._without_answer(error)

    async def check_async(self, domain, attributes, *, cost=1, max_wait=None):
        """Like check, without blocking the event loop, on the same channel."""
        loop = asyncio.get_running_loop()
        answered = loop.create_future()
        call = self._check.future(self._request(domain, attributes, cost, max_wait),
                                  timeout=self._deadline)

        def wake():
            if not answered.done():
                answered.set_result(None)

        call.add_done_callback(lambda _: loop.call_soon_threadsafe(wake))
        try:
            await answered
        except asyncio.CancelledError:
            call.add_done_callback(self._release_unused)
            raise
        try:
            return _decided(call.result())
        except grpc.RpcError as error:
            return self._without_answer(error)

    @contextlib.contextmanager
    def limited(self, domain, attributes, *, cost=1, max_wait=None):
        """Runs the block if the request is allowed, else raises Limited. If the answer has a wait,
        sleeps first. A slot of a concurrency limit is held while the block runs, and always released
        at its end."""
        decision = self.check(domain, attributes, cost=cost, max_wait=max_wait)
        if not decision.allowed:
            raise Limited(decision)
        with self.holding(decision):
            if decision.wait > 0:
                time.sleep(decision.wait)
            yield decision

    def limit(self, domain, attributes, *, cost=1, max_wait=None):
        """Decorator: limits each call, also of an `async def`. attributes: a dict, or a function of the
        call's arguments that returns one."""
        def decorate(function):
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(f"{function.__name__} is a generator, whose work begins after the call: "
                                "use `with client.limited(...)` in it")

            def facts(args, kwargs):
                return attributes(*args, **kwargs) if callable(attributes) else attributes

            @functools.wraps(function)
            def limited_function(*args, **kwargs):
                with self.limited(domain, facts(args, kwargs), cost=cost, max_wait=max_wait):
                    return function(*args, **kwargs)

            @functools.wraps(function)
            async def limited_coroutine(*args, **kwargs):
                decision = await self.check_async(domain, facts(args, kwargs), cost=cost,
                                                  max_wait=max_wait)
                if not decision.allowed:
                    raise Limited(decision)
                with self.holding(decision):
                    await asyncio.sleep(decision.wait)
                    return await function(*args, **kwargs)

            return limited_coroutine if asyncio.iscoroutinefunction(function) else limited_function
        return decorate

    @contextlib.contextmanager
    def holding(self, decision):
        """Renews the lease of `decision`, if it has one, while the block runs, then releases it."""
        lease = decision.response.lease
        if not lease.id:
            yield
            return
        ended = threading.Event()
        ttl = _seconds(lease.ttl)
        threading.Thread(target=self._keep, args=(lease.id, ttl, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()
            self._give_back(lease.id)

    def _keep(self, lease_id, ttl, ended):
        while not ended.wait(ttl / 3):
            try:
                self._renew(pb.RenewLeaseRequest(lease_id=lease_id), timeout=ttl / 3)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    return  # the lease is lost; the work continues

    # Does not wait for the answer. If it never arrives, the slot is free after the ttl.
    def _give_back(self, lease_id):
        if sys.is_finalizing():
            return  # a generator that was never finished: gRPC would wait forever for a thread
        release = self._release.future(pb.ReleaseLeaseRequest(lease_id=lease_id), timeout=5)
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)

    def _release_unused(self, call):
        if call.code() == grpc.StatusCode.OK and call.result().lease.id:
            self._give_back(call.result().lease.id)

    def _request(self, domain, attributes, cost, max_wait):
        request = pb.CheckLimitRequest(domain=domain, attributes=attributes, cost=cost)
        if max_wait is None:
            max_wait = self._max_wait
        if max_wait is not None:
            request.max_wait.FromNanoseconds(round(max_wait * 1e9))
        return request

    def _without_answer(self, error):
        if error.code() in _MISTAKES:
            raise error
        return Decision(self._open)

    def _method(self, name, request, response):
        return self._channel.unary_unary(f"/sluice.v1.RateLimiter/{name}",
                                         request_serializer=request.SerializeToString,
                                         response_deserializer=response.FromString)


def _decided(response):
    return Decision(response.decision == pb.DECISION_ALLOWED, response)


def _seconds(duration):
    return duration.seconds + duration.nanos / 1e9
