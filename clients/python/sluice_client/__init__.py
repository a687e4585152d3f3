"""Rate limits decided by Sluice. See README.md.

`Client` asks whether requests are allowed. `Client.limit` decorates a function. `LimitMiddleware`
limits an ASGI application, `LimitWSGIMiddleware` limits a WSGI application, and `LimitInterceptor`
limits the methods of a gRPC server.
"""

from .asgi import LimitMiddleware
from .blocks import Reservation
from .client import CLOSED, OPEN, CheckOptions, Client
from .decision import Decision, Limited, NoAnswer
from .interceptor import LimitInterceptor
from .outcome import above
from .wsgi import LimitWSGIMiddleware

__all__ = ["CLOSED", "OPEN", "CheckOptions", "Client", "Decision", "LimitInterceptor",
           "LimitMiddleware", "LimitWSGIMiddleware", "Limited", "NoAnswer",
           "Reservation", "above"]
