"""Limits the requests of an ASGI application (FastAPI, Starlette, Django, …)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Callable

from .client import Attributes, CheckOptions, Client
from .outcome import is_overload

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LimitMiddleware:
    """app.add_middleware(LimitMiddleware, client=client, domain="shop"), or
    app = LimitMiddleware(app, client, "shop").

    Each HTTP request is checked in `domain` with the attributes `endpoint` (the path), `method` and
    `client_ip`, and with those that `attributes(scope)` returns. A denied request gets 429, and
    Retry-After if a retry can succeed. If no server answers and the client is CLOSED, a request
    gets 503. If limits were checked, the response has RateLimit and RateLimit-Policy. The
    application finds the decision in scope["sluice"]. WebSocket connections are not checked.
    """

    def __init__(self, app: Any, client: Client, domain: str,
                 attributes: Callable[[Any], Attributes] = lambda scope: {},
                 **options: Unpack[CheckOptions]):
        self._app, self._client, self._domain = app, client, domain
        self._attributes, self._options = attributes, options

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts = {"endpoint": scope["path"], "method": scope["method"],
                 "client_ip": scope["client"][0] if scope.get("client") else None,
                 **self._attributes(scope)}
        decision = await self._client.check_async(self._domain, facts, **self._options)
        headers = [(name.lower().encode(), value.encode()) for name, value in decision.headers]
        if not decision.allowed:
            status, reason = decision.http_status
            await send({"type": "http.response.start", "status": status,
                        "headers": [(b"content-type", b"text/plain"), *headers]})
            await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                decision.response_overload = is_overload(message["status"])
                message = {**message, "headers": [*message.get("headers", []), *headers]}
            await send(message)

        with self._client.holding(decision):
            await asyncio.sleep(decision.wait)
            await self._app({**scope, "sluice": decision}, receive, send_with_headers)
