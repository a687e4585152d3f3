"""Limits the methods of a gRPC server by rules, without changing them."""

import logging
import time

import grpc


class LimitInterceptor(grpc.ServerInterceptor):
    """For grpc.server(..., interceptors=[LimitInterceptor(client, "shop")]).

    Each call is checked in `domain` with the attribute `endpoint`, its full method, and what
    `attributes(metadata)` returns, a function of the call's metadata (a dict). A denied call ends with
    RESOURCE_EXHAUSTED; if a retry can succeed, `grpc-retry-pushback-ms` says when.
    """

    def __init__(self, client, domain, attributes=lambda metadata: {}):
        self._client, self._domain, self._attributes = client, domain, attributes

    def intercept_service(self, continuation, handler_call_details):
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        facts = {**self._attributes(dict(handler_call_details.invocation_metadata)),
                 "endpoint": handler_call_details.method}

        def decide(context):
            try:
                decision = self._client.check(self._domain, facts)
            except grpc.RpcError:  # a mistake of this server, not of the caller
                logging.exception("no decision")
                context.abort(grpc.StatusCode.INTERNAL, "no decision")
            if not decision.allowed:
                after = decision.retry_after
                if after is not None:
                    context.set_trailing_metadata(
                        [("grpc-retry-pushback-ms", str(-int(-after * 1000 // 1)))])
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limited")
            return decision

        def answer(behavior):
            def limited(request, context):
                decision = decide(context)
                with self._client.holding(decision):
                    time.sleep(decision.wait)
                    return behavior(request, context)
            return limited

        def stream(behavior):
            def limited(request, context):
                decision = decide(context)
                with self._client.holding(decision):
                    time.sleep(decision.wait)
                    yield from behavior(request, context)
            return limited

        kind = "stream" if handler.request_streaming else "unary"
        if handler.response_streaming:
            make, behavior = f"{kind}_stream", stream(getattr(handler, f"{kind}_stream"))
        else:
            make, behavior = f"{kind}_unary", answer(getattr(handler, f"{kind}_unary"))
        return getattr(grpc, f"{make}_rpc_method_handler")(
            behavior, handler.request_deserializer, handler.response_serializer)
