"""Calls the entry points of a sluiced, by gRPC and by HTTP."""

import http.client
import json
import ssl

import grpc
from sluice.v1 import rate_limiter_pb2 as api

LIMITER = "/sluice.v1.RateLimiter/"
LEASE_CALLS = ("RenewLease", "ReleaseLease", "SettleLease")
ADMIN = "/sluice.v1.Admin/"
ADMIN_CALLS = ("Explain", "ResetLimit", "ListRules", "ReloadRules")
ENVOY = "/envoy.service.ratelimit.v3.RateLimitService/"
REFLECTION = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
LEASE_PATHS = ("/v1/leases/renew", "/v1/leases/release", "/v1/leases/settle")
TIMEOUT = 20


def check_of(domain="shop", mode=api.MODE_CONSUME, endpoint="/pay"):
    return api.CheckLimitRequest(domain=domain, mode=mode, attributes={"endpoint": endpoint})


def varint(number):
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number, value):
    """An encoded protobuf field. Its value is a number, or the bytes of a string or message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def descriptor_of(value=b"x", hits=None, negative=False, unit=None):
    """A descriptor with the entry user=VALUE. With `unit`, the descriptor has its own limit."""
    descriptor = field(1, field(1, b"user") + field(2, value))
    if unit is not None:
        descriptor += field(2, field(1, 5) + field(2, unit))
    if hits is not None:
        descriptor += field(3, field(1, hits)) + field(4, int(negative))
    return descriptor


def envoy_request(domain, *arguments, **named):
    """A RateLimitRequest with one descriptor."""
    return field(1, domain.encode()) + field(2, descriptor_of(*arguments, **named))


class Grpc:
    """The gRPC entry points at an address, for one caller."""

    def __init__(self, address, token=None, credentials=None, options=None):
        self.channel = (grpc.secure_channel(address, credentials, options) if credentials
                        else grpc.insecure_channel(address, options))
        self.metadata = [("authorization", f"Bearer {token}")] if token else []

    def call(self, path, request):
        """Returns the response's bytes, or, if the call fails, the name of its status code."""
        method = self.channel.unary_unary(path)
        try:
            return method(request, metadata=self.metadata, timeout=TIMEOUT)
        except grpc.RpcError as error:
            return error.code().name

    def stream(self, path, *requests):
        """Like `call`, but calls a stream, and returns the list of its responses."""
        method = self.channel.stream_stream(path)
        try:
            return list(method(iter(requests), metadata=self.metadata, timeout=TIMEOUT))
        except grpc.RpcError as error:
            return error.code().name

    def check(self, *arguments, **named):
        answer = self.call(LIMITER + "CheckLimit",
                           check_of(*arguments, **named).SerializeToString())
        return answer if isinstance(answer, str) else api.CheckLimitResponse.FromString(answer)

    def should_rate_limit(self, *arguments, **named):
        return self.call(ENVOY + "ShouldRateLimit", envoy_request(*arguments, **named))

    def is_over(self, *arguments, **named):
        """Returns True if Envoy gets OVER_LIMIT, and False if it gets OK."""
        return {b"\x08\x01": False, b"\x08\x02": True}[
            self.should_rate_limit(*arguments, **named)[:2]]

    def doors(self):
        """The answers of Sluice's own entry points and of reflection, by name."""
        batch = api.CheckLimitsRequest(checks=[check_of()]).SerializeToString()
        return {
            "CheckLimit": self.call(LIMITER + "CheckLimit", check_of().SerializeToString()),
            "CheckLimits": self.call(LIMITER + "CheckLimits", batch),
            "CheckLimitStream": self.stream(LIMITER + "CheckLimitStream", batch),
            **{name: self.call(LIMITER + name, b"") for name in LEASE_CALLS},
            "reflection v1": self.stream(REFLECTION.format("v1"), b"\x3a\x01*"),
            "reflection v1alpha": self.stream(REFLECTION.format("v1alpha"), b"\x3a\x01*"),
            **{name: self.call(ADMIN + name, b"") for name in ADMIN_CALLS},
            "Watch": self.stream(ADMIN + "Watch", b""),
        }


class Http:
    """The HTTP entry points at an address, for one caller."""

    def __init__(self, address, token=None, context=None):
        self.address = address
        self.context = context
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, method, path, body=None):
        """The status and the text. If there is no HTTP answer, the status is "refused"."""
        host, port = self.address.rsplit(":", 1)
        connection = (
            http.client.HTTPSConnection(host, int(port), timeout=TIMEOUT, context=self.context)
            if self.context else http.client.HTTPConnection(host, int(port), timeout=TIMEOUT))
        try:
            connection.request(method, path, body and json.dumps(body), self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (ssl.SSLError, ConnectionError, http.client.HTTPException):
            return "refused", ""
        finally:
            connection.close()

    def should_rate_limit(self, domain, **descriptor):
        """The status."""
        descriptor["entries"] = [{"key": "user", "value": "x"}]
        return self.ask("POST", "/json", {"domain": domain, "descriptors": [descriptor]})[0]

    def doors(self):
        check = {"domain": "shop", "attributes": {"endpoint": "/pay"}}
        return {
            "/v1/check": self.ask("POST", "/v1/check", check),
            "/v1/checks": self.ask("POST", "/v1/checks", {"checks": [check]}),
            **{path: self.ask("POST", path, {"leaseId": "x"}) for path in LEASE_PATHS},
            "/v1/auth": self.ask("GET", "/v1/auth?domain=shop&endpoint=/pay"),
            "/rules": self.ask("GET", "/rules"),
            "/metrics": self.ask("GET", "/metrics"),
        }
