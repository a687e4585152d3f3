"""Limits the requests of a WSGI application (Flask, Django, …)."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator

from .client import Attributes, CheckOptions, Client
from .outcome import is_overload

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LimitWSGIMiddleware:
    """app.wsgi_app = LimitWSGIMiddleware(app.wsgi_app, client, "shop") for Flask.

    The same as LimitMiddleware, for WSGI. `attributes` is called with WSGI's environ. The
    application finds the decision in environ["sluice"].
    """

    def __init__(self, app: Any, client: Client, domain: str,
                 attributes: Callable[[Any], Attributes] = lambda environ: {},
                 **options: Unpack[CheckOptions]):
        self._app, self._client, self._domain = app, client, domain
        self._attributes, self._options = attributes, options

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        facts = {"endpoint": path.encode("latin-1").decode("utf-8", "replace"),
                 "method": environ["REQUEST_METHOD"], "client_ip": environ.get("REMOTE_ADDR"),
                 **self._attributes(environ)}
        decision = self._client.check(self._domain, facts, **self._options)
        if not decision.allowed:
            status, reason = decision.http_status
            start_response(f"{status} {reason}", [("Content-Type", "text/plain"), *decision.headers])
            return [f"{reason}\n".encode()]

        def start_with_headers(status: str, headers: Any, *error: Any) -> Any:
            decision.response_overload = is_overload(int(status.split()[0]))
            return start_response(status, [*headers, *decision.headers], *error)

        environ["sluice"] = decision
        with contextlib.ExitStack() as holding:
            holding.enter_context(self._client.holding(decision))
            time.sleep(decision.wait)
            body = self._app(environ, start_with_headers)
            return _Body(body, holding.pop_all())
        raise AssertionError  # not reached


class _Body:
    """The application's body. The server closes it when the response has been sent or has
    failed."""

    def __init__(self, body: Any, holding: contextlib.ExitStack):
        self._body, self._holding = body, holding

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        with self._holding:
            if hasattr(self._body, "close"):
                self._body.close()
