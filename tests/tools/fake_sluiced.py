"""A fake Sluice server with scripted answers, and helpers to run the real `sluice` against it.

Arguments of a test program: SLUICE DIRECTORY_OF_GENERATED_MESSAGES
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import threading
import time

import grpc

SLUICE, GENERATED = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, GENERATED)

from sluice.v1 import rate_limiter_pb2 as pb  # noqa: E402  (needs the path above)

PATIENCE = 20  # seconds, for events that are expected at once


def seconds(count):
    """A protobuf Duration."""
    duration = pb.Lease().ttl
    duration.FromMicroseconds(round(count * 1e6))
    return duration


def allowed(**fields):
    return pb.CheckLimitResponse(decision=pb.DECISION_ALLOWED, source=pb.SOURCE_STORE, **fields)


class Failure(Exception):
    """A function of a test raises a Failure to answer an RPC with the error `code`."""

    def __init__(self, code, message="because"):
        super().__init__(message)
        self.code = code


class FakeServer:
    """A test can replace `check`, `renew` and `release`. Each of them gets a request and returns
    the answer. The server calls them on any thread. `calls` has the received calls in order, as
    (method, request, monotonic time)."""

    def __init__(self, test):
        directory = tempfile.TemporaryDirectory(prefix="sluice-test-")
        test.addCleanup(directory.cleanup)
        self.address = f"unix:{directory.name}/grpc.sock"
        self.check = lambda request: allowed()
        self.renew = lambda request: pb.RenewLeaseResponse(ttl=seconds(0.3))
        self.release = lambda request: pb.ReleaseLeaseResponse()
        self.calls = []
        self.changed = threading.Condition()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        handlers = {
            "CheckLimit": self.handler(pb.CheckLimitRequest, "check"),
            "RenewLease": self.handler(pb.RenewLeaseRequest, "renew"),
            "ReleaseLease": self.handler(pb.ReleaseLeaseRequest, "release"),
        }
        self.server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("sluice.v1.RateLimiter", handlers)]
        )
        self.server.add_insecure_port(self.address)
        self.server.start()
        test.addCleanup(lambda: self.server.stop(None).wait())

    def handler(self, request_type, method):
        def answer(request, context):
            with self.changed:
                self.calls.append((method, request, time.monotonic()))
                self.changed.notify_all()
            try:
                return getattr(self, method)(request)
            except Failure as failure:
                context.abort(failure.code, str(failure))

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=request_type.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def requests(self, method):
        with self.changed:
            return [request for name, request, _ in self.calls if name == method]

    def times(self, method):
        with self.changed:
            return [at for name, _, at in self.calls if name == method]

    def wait_for(self, method, count=1):
        with self.changed:
            came = self.changed.wait_for(
                lambda: sum(name == method for name, *_ in self.calls) >= count, PATIENCE
            )
        if not came:
            raise AssertionError(f"timed out while waiting for {count} x {method}: {self.calls}")


def in_turn(*answers):
    """Makes a function that returns the answers one after another, then repeats the last one. If an
    answer is an exception, the function raises it."""
    rest = list(answers)

    def answer(_):
        now = rest.pop(0) if len(rest) > 1 else rest[0]
        if isinstance(now, Exception):
            raise now
        return now

    return answer


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}


def start(*arguments, **options):
    """Starts `sluice`, by default with pipes as its standard streams."""
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    return subprocess.Popen(
        [SLUICE, *arguments], **{**pipes, "text": True, "env": environment(), **options}
    )


def run(*arguments, **options):
    """Runs `sluice` until it ends, with an empty stdin."""
    with start(*arguments, **options) as process:
        stdout, stderr = process.communicate(timeout=3 * PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
