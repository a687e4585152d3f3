"""Limits the requests of an ASGI application (FastAPI, Starlette, Django, …)."""

import asyncio
import math


class LimitMiddleware:
    """LimitMiddleware(application, client, "shop").

    Each request is checked in `domain` with the attributes `endpoint` (the path), `method`, `client_ip`
    and what `attributes(scope)` returns. A denied one is answered with 429 and Retry-After; every response
    has RateLimit and RateLimit-Policy.
    """

    def __init__(self, application, client, domain, attributes=lambda scope: {}):
        self._application, self._client = application, client
        self._domain, self._attributes = domain, attributes

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        facts = {"endpoint": scope["path"], "method": scope["method"]}
        if scope.get("client"):
            facts["client_ip"] = scope["client"][0]
        facts.update(self._attributes(scope))
        decision = await self._client.check_async(self._domain, facts)
        headers = rate_limit_headers(decision)
        if not decision.allowed:
            await send({"type": "http.response.start", "status": 429,
                        "headers": [(b"content-type", b"text/plain"), *headers]})
            await send({"type": "http.response.body", "body": b"too many requests\n"})
            return

        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *headers]}
            await send(message)

        with self._client.holding(decision):
            await asyncio.sleep(decision.wait)
            await self._application(scope, receive, send_with_headers)


def rate_limit_headers(decision):
    """The headers of draft-ietf-httpapi-ratelimit-headers."""
    shown = [limit for limit in decision.response.limits
             if not limit.shadow and limit.HasField("limit")]
    names = [_name(limit) for limit in shown]
    headers = []
    if shown:
        policies = (f"{name};q={limit.limit}" for name, limit in zip(names, shown))
        states = (f"{name};r={limit.remaining};t={_ceil(limit.reset_after)}"
                  for name, limit in zip(names, shown))
        headers = [(b"ratelimit-policy", ", ".join(policies).encode()),
                   (b"ratelimit", ", ".join(states).encode())]
    if decision.retry_after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(decision.retry_after))).encode()))
    return headers


def _ceil(duration):
    return duration.seconds + (duration.nanos > 0)


# A string of RFC 8941, which is ASCII; later limits of a rule get their index.
def _name(limit):
    rule = "".join(c if " " <= c < "\x7f" else "?" for c in limit.rule)
    rule = rule.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{rule}/{limit.index}"' if limit.index else f'"{rule}"'
