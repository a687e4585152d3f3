"""The client: one channel, a deadline for every check, and a decision even if no server answers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import logging
from datetime import datetime
from typing import (TYPE_CHECKING, Any, Callable, Iterator, Literal, Mapping, TypedDict, TypeVar,
                    cast)

import grpc

from . import rate_limiter_pb2 as pb
from .blocks import LimitedBlock, Reservation
from .decision import Decision
from .leases import LeaseKeeper
from .outcome import Hold

if TYPE_CHECKING:
    from typing_extensions import Unpack

OPEN, CLOSED = "open", "closed"

Attributes = Mapping[str, "str | None"]
F = TypeVar("F", bound=Callable[..., Any])

_SERVICE = "sluice.v1.RateLimiter"
_AFTER_CLOSE = "the client is closed"

# A check is never sent twice, since it may have been counted. Calls that end or renew a lease are
# idempotent, so gRPC repeats them.
_SERVICE_CONFIG = json.dumps({
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [{
        "name": [{"service": _SERVICE, "method": method}
                 for method in ("RenewLease", "ReleaseLease", "SettleLease")],
        "waitForReady": True,
        "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
                        "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]},
    }],
})

# Errors of the caller, which are raised. After any other error, the client decides.
_MISTAKES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}


class CheckOptions(TypedDict, total=False):
    """The fields of a check, except domain and attributes."""

    cost: int
    """Units to take; 1 unless set."""
    amounts: Mapping[str, int]
    """Amounts that limits may count in addition to the cost: {"tokens": 500}."""
    mode: Literal["consume", "peek", "charge", "refund"]
    """"consume" unless set. The API describes the modes."""
    max_wait: float
    """The longest wait in seconds that this check accepts."""
    max_delay: float
    """Like max_wait, but only leaky_bucket limits may tell the caller to wait."""
    charged_at: datetime
    """For "refund": `decided_at` of the decision that charged."""
    request_id: str
    """The response contains it unchanged."""
    lease_ttl: float
    """Takes the units under a lease of this ttl in seconds; `reserve` sets it."""


class Client:
    """Asks one address, such as "127.0.0.1:8081", "unix:/run/sluice/grpc.sock" or "dns:///sluice:8081".

    Thread-safe. A process needs only one client, which has one channel. The constructor connects,
    and waits for the connection for at most `connect_timeout`. Create the client after a fork.
    """

    def __init__(self, address: str = "127.0.0.1:8081", *,
                 token: str | Callable[[], str] | None = None,
                 credentials: grpc.ChannelCredentials | None = None,
                 deadline: float = 0.1,
                 without_answer: Literal["open", "closed"] = "open",
                 max_wait: float | None = None,
                 connect_timeout: float = 2.0,
                 lease_ttl: float = 60.0,
                 settle_for: float = 600.0,
                 max_settlements: int = 10_000,
                 drain: float = 5.0,
                 overloaded: Callable[[], bool] = lambda: False):
        if without_answer not in (OPEN, CLOSED):
            raise ValueError(f"without_answer is {without_answer!r}; allowed are OPEN and CLOSED")
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # A server that hangs is noticed, even if the client makes no calls. The timeout must be
            # longer than 5 s: gRPC reads only every 5 s from a connection without calls.
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.service_config", _SERVICE_CONFIG),
        ]
        self._channel = (grpc.secure_channel(address, credentials, options) if credentials
                         else grpc.insecure_channel(address, options))
        self._token = token
        self._deadline = deadline
        self._open = without_answer == OPEN
        self._max_wait = max_wait
        self._lease_ttl = lease_ttl
        self._drain = drain
        self._closed = False
        self.overloaded = overloaded
        """Whether this process is overloaded. If so, limits with `adapt` learn "overload" even from work that
        succeeded."""
        self._check = self._method("CheckLimit", pb.CheckLimitRequest, pb.CheckLimitResponse)
        methods = {
            "RenewLease": self._method("RenewLease", pb.RenewLeaseRequest, pb.RenewLeaseResponse),
            "ReleaseLease": self._method("ReleaseLease", pb.ReleaseLeaseRequest, pb.ReleaseLeaseResponse),
            "SettleLease": self._method("SettleLease", pb.SettleLeaseRequest, pb.SettleLeaseResponse),
        }
        self._leases = LeaseKeeper(
            lambda name, request, timeout: methods[name].future(request, timeout, self._metadata()),
            lambda code: code in _MISTAKES, settle_for, max_settlements)
        self._connect(address, connect_timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Waits until settlements are stored and releases are answered, but at most for `drain`.
        Returns how many settlements this client has lost in total. Later checks are decided as if
        no server answered."""
        lost = self._leases.close(self._drain)
        self._closed = True
        self._channel.close()
        return lost

    def check(self, domain: str, attributes: Attributes,
              **options: Unpack[CheckOptions]) -> Decision:
        """Asks whether a request is allowed. Attributes that are None are left out. If the
        request is invalid or the caller may not make it, raises grpc.RpcError."""
        request, metadata = self._request(domain, attributes, options), self._metadata()
        try:
            return _decided(self._check(request, timeout=self._deadline, metadata=metadata))
        except grpc.RpcError as error:
            return self._without_answer(error)
        except ValueError:
            if not self._closed:
                raise
            return Decision(self._open, failure=_AFTER_CLOSE)

    async def check_async(self, domain: str, attributes: Attributes,
                          **options: Unpack[CheckOptions]) -> Decision:
        """Like check, on the same channel, but does not block the event loop."""
        loop = asyncio.get_running_loop()
        answered = loop.create_future()
        request, metadata = self._request(domain, attributes, options), self._metadata()
        try:
            call = self._check.future(request, timeout=self._deadline, metadata=metadata)
        except ValueError:
            if not self._closed:
                raise
            return Decision(self._open, failure=_AFTER_CLOSE)

        def wake() -> None:
            if not answered.done():
                answered.set_result(None)

        call.add_done_callback(lambda _: loop.call_soon_threadsafe(wake))
        try:
            await answered
        except asyncio.CancelledError:
            call.add_done_callback(lambda call: self._end_unused(call, request))
            raise
        try:
            return _decided(call.result())
        except grpc.RpcError as error:
            return self._without_answer(error)

    def limited(self, domain: str, attributes: Attributes,
                **options: Unpack[CheckOptions]) -> LimitedBlock:
        """For `with` and `async with`: if the request is allowed, runs the block; otherwise raises
        Limited. If the answer has a wait, sleeps first. While the block runs, a slot of a
        concurrency limit is held. It is always released at the end of the block."""
        return LimitedBlock(self, domain, attributes, options)

    def reserve(self, domain: str, attributes: Attributes,
                **options: Unpack[CheckOptions]) -> Reservation:
        """For `with` and `async with`: if the request is allowed, takes units of all limits under a
        lease, and runs the block; otherwise raises Limited. At the end of the block, settles with
        what `use` reported."""
        return Reservation(self, self._leases,
                           (domain, attributes, {"lease_ttl": self._lease_ttl, **options}))

    def limit(self, domain: str, attributes: Attributes | Callable[..., Attributes],
              **options: Unpack[CheckOptions]) -> Callable[[F], F]:
        """Decorator: limits each call of a function or coroutine. attributes: a dict, or a function
        that takes the call's arguments and returns a dict."""
        def decorate(function: F) -> F:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError(f"{function.__name__} is a generator, whose work begins after the call: "
                                "use `with client.limited(...)` in it")

            def block(args: Any, kwargs: Any) -> LimitedBlock:
                facts = attributes(*args, **kwargs) if callable(attributes) else attributes
                return self.limited(domain, facts, **options)

            @functools.wraps(function)
            def limited_function(*args: Any, **kwargs: Any) -> Any:
                with block(args, kwargs):
                    return function(*args, **kwargs)

            @functools.wraps(function)
            async def limited_coroutine(*args: Any, **kwargs: Any) -> Any:
                async with block(args, kwargs):
                    return await function(*args, **kwargs)

            is_coroutine = asyncio.iscoroutinefunction(function)
            return cast(F, limited_coroutine if is_coroutine else limited_function)
        return decorate

    @contextlib.contextmanager
    def holding(self, decision: Decision) -> Iterator[None]:
        """If `decision` has a lease: renews it while the block runs, then releases it."""
        lease = decision.response.lease
        if not lease.id:
            yield
            return
        self._leases.hold(lease)
        error: BaseException | None = None
        try:
            yield
        except BaseException as failure:
            error = failure
            raise
        finally:
            self._leases.release(lease.id, decision.ended(error, self.overloaded))

    def _connect(self, address: str, timeout: float) -> None:
        connected = grpc.channel_ready_future(self._channel)
        try:
            connected.result(timeout)
        except grpc.FutureTimeoutError:
            connected.cancel()
            logging.getLogger(__name__).warning("no connection to %s within %g s", address, timeout)

    def _end_unused(self, call: Any, request: pb.CheckLimitRequest) -> None:
        if call.code() != grpc.StatusCode.OK or not call.result().lease.id:
            return
        response = call.result()
        if request.HasField("lease_ttl"):  # after a release, the units would stay charged
            nothing = dict.fromkeys(["cost", "requests", *request.amounts], 0)
            self._leases.settle(response.lease.id, nothing, response.source == pb.SOURCE_FALLBACK,
                                Hold("ignore"))
        else:
            self._leases.release(response.lease.id, Hold("ignore"))

    def _request(self, domain: str, attributes: Attributes,
                 options: CheckOptions) -> pb.CheckLimitRequest:
        request = pb.CheckLimitRequest(
            domain=domain, attributes={k: v for k, v in attributes.items() if v is not None},
            cost=options.get("cost", 1), amounts=options.get("amounts"),
            mode=pb.Mode.Value(f"MODE_{options.get('mode', 'consume').upper()}"),
            request_id=options.get("request_id", ""))
        max_wait = options.get("max_wait", None if "max_delay" in options else self._max_wait)
        if max_wait is not None:
            request.max_wait.FromNanoseconds(round(max_wait * 1e9))
        if "max_delay" in options:
            request.max_delay.FromNanoseconds(round(options["max_delay"] * 1e9))
        if "lease_ttl" in options:
            request.lease_ttl.FromNanoseconds(round(options["lease_ttl"] * 1e9))
        if "charged_at" in options:
            request.charged_at.FromDatetime(options["charged_at"])
        unknown = options.keys() - CheckOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"a check has no option {', '.join(sorted(unknown))}")
        return request

    def _without_answer(self, error: Any) -> Decision:
        if error.code() in _MISTAKES:
            raise error
        return Decision(self._open, failure=f"{error.code().name}: {error.details()}")

    def _metadata(self) -> list[tuple[str, str]]:
        token = self._token() if callable(self._token) else self._token
        return [("authorization", f"Bearer {token}")] if token else []

    def _method(self, name: str, request: Any, response: Any) -> Any:
        return self._channel.unary_unary(f"/{_SERVICE}/{name}",
                                         request_serializer=request.SerializeToString,
                                         response_deserializer=response.FromString)


def _decided(response: pb.CheckLimitResponse) -> Decision:
    return Decision(response.decision == pb.DECISION_ALLOWED, response)
