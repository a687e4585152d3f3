"""Rate limits decided by Sluice. See README.md.

`Client` asks; `Client.limit` decorates a function; `LimitInterceptor` limits a gRPC server's methods,
`LimitMiddleware` an ASGI application.
"""

from .asgi import LimitMiddleware
from .client import CLOSED, OPEN, Client, Decision, Limited
from .interceptor import LimitInterceptor

__all__ = ["CLOSED", "OPEN", "Client", "Decision", "LimitInterceptor", "LimitMiddleware", "Limited"]
