"""Limits the methods of a gRPC server by rules. The methods need no changes."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator

import grpc

from .client import Attributes, CheckOptions, Client
from .decision import Decision
from .outcome import OVERLOAD_CODES

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LimitInterceptor(grpc.ServerInterceptor):
    """For grpc.server(..., interceptors=[LimitInterceptor(client, "shop")]).

    Each call is checked in `domain` with the attribute `endpoint` (the call's full method, such as
    "/shop.v1.Shop/Pay") and with the attributes that `attributes(metadata)` returns (metadata is a
    dict). A denied call ends with RESOURCE_EXHAUSTED; if a retry can succeed,
    `grpc-retry-pushback-ms` says when. If no server answers and the client is CLOSED, the call ends
    with UNAVAILABLE.
    """

    def __init__(self, client: Client, domain: str,
                 attributes: Callable[[Any], Attributes] = lambda metadata: {},
                 **options: Unpack[CheckOptions]):
        self._client, self._domain = client, domain
        self._attributes, self._options = attributes, options

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        facts = {**self._attributes(dict(handler_call_details.invocation_metadata)),
                 "endpoint": handler_call_details.method}

        def decide(context: Any) -> Decision:
            try:
                decision = self._client.check(self._domain, facts, **self._options)
            except grpc.RpcError:  # an error of this server, not of its caller
                logging.getLogger(__name__).exception("no decision")
                context.abort(grpc.StatusCode.INTERNAL, "no decision")
            if not decision.answered and not decision.allowed:
                context.abort(grpc.StatusCode.UNAVAILABLE, "no decision")
            if not decision.allowed:
                if decision.retry_after is not None:
                    context.set_trailing_metadata(
                        [("grpc-retry-pushback-ms", str(math.ceil(decision.retry_after * 1000)))])
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limited")
            return decision

        @contextlib.contextmanager
        def holding(decision: Decision, context: Any) -> Iterator[None]:
            with self._client.holding(decision):
                time.sleep(decision.wait)
                try:
                    yield
                finally:
                    decision.response_overload = context.code() in OVERLOAD_CODES

        def answer(behavior: Any) -> Any:
            def limited(request: Any, context: Any) -> Any:
                decision = decide(context)
                with holding(decision, context):
                    return behavior(request, context)
            return limited

        def stream(behavior: Any) -> Any:
            def limited(request: Any, context: Any) -> Iterator[Any]:
                decision = decide(context)
                with holding(decision, context):
                    yield from behavior(request, context)
            return limited

        kind = "stream" if handler.request_streaming else "unary"
        if handler.response_streaming:
            make, behavior = f"{kind}_stream", stream(getattr(handler, f"{kind}_stream"))
        else:
            make, behavior = f"{kind}_unary", answer(getattr(handler, f"{kind}_unary"))
        return getattr(grpc, f"{make}_rpc_method_handler")(
            behavior, handler.request_deserializer, handler.response_serializer)
