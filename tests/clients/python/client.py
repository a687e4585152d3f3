"""Python's gRPC library as a client of sluiced. ../run.py describes the test cases.

Usage: client.py DESCRIPTORS FLAG...
DESCRIPTORS: the output of `protoc --descriptor_set_out` for the .proto files.
run.py passes the flags and describes them.
"""

import argparse
import queue
import sys
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TIMEOUT = 20  # seconds: longer than any call takes
MANY = 100_000  # the burst of /many
MIB = 1 << 20


# --- messages and methods ---------------------------------------------------------------------

class Messages:
    """Message classes by full name. The code that protoc generates for grpc/health would conflict
    with the library's package `grpc`."""

    def __init__(self, path):
        with open(path, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
        self._pool = descriptor_pool.DescriptorPool()
        for file in files:
            self._pool.Add(file)
        self._factory = message_factory.MessageFactory(self._pool)

    def __call__(self, name):
        return self._factory.GetPrototype(self._pool.FindMessageTypeByName(name))


def make_api(channel):
    """One function for each RPC method that the tests use."""
    def method(kind, path, request, response):
        return kind(path, request_serializer=messages(request).SerializeToString,
                    response_deserializer=messages(response).FromString)

    class Api:
        one = method(channel.unary_unary, "/sluice.v1.RateLimiter/CheckLimit",
                     "sluice.v1.CheckLimitRequest", "sluice.v1.CheckLimitResponse")
        batch = method(channel.unary_unary, "/sluice.v1.RateLimiter/CheckLimits",
                       "sluice.v1.CheckLimitsRequest", "sluice.v1.CheckLimitsResponse")
        stream = method(channel.stream_stream, "/sluice.v1.RateLimiter/CheckLimitStream",
                        "sluice.v1.CheckLimitsRequest", "sluice.v1.CheckLimitsResponse")
        list_rules = method(channel.unary_unary, "/sluice.v1.Admin/ListRules",
                            "sluice.v1.ListRulesRequest", "sluice.v1.ListRulesResponse")
        health = method(channel.unary_unary, "/grpc.health.v1.Health/Check",
                        "grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse")
        watch = method(channel.unary_stream, "/grpc.health.v1.Health/Watch",
                       "grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse")
        reflect = method(channel.stream_stream,
                         "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                         "grpc.reflection.v1alpha.ServerReflectionRequest",
                         "grpc.reflection.v1alpha.ServerReflectionResponse")
    return Api


def connect(address, options=()):
    if options_given.tls_ca is None:
        return grpc.insecure_channel(address, options)
    with open(options_given.tls_ca, "rb") as file:
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()), options)


def check(user, endpoint="/many", **fields):
    attributes = {"endpoint": endpoint, "user": user, **fields.pop("more", {})}
    return messages("sluice.v1.CheckLimitRequest")(
        domain="clients", attributes=attributes, **fields)


def frame(checks):
    return messages("sluice.v1.CheckLimitsRequest")(checks=checks)


def health_of(service=""):
    return messages("grpc.health.v1.HealthCheckRequest")(service=service)


class Stream:
    """A CheckLimitStream: sends messages and collects results."""

    def __init__(self, on, **options):
        self._frames = queue.SimpleQueue()
        self.call = on.stream(iter(self._frames.get, None), **{"timeout": TIMEOUT, **options})

    def send(self, checks):
        self._frames.put(frame(checks))

    def half_close(self):
        self._frames.put(None)

    def results(self, count):
        found = []
        while len(found) < count:
            found += next(self.call).results
        expect(len(found) == count, f"{len(found)} results instead of {count}")
        return [result.response for result in found]


def expect(holds, otherwise):
    if not holds:
        raise AssertionError(otherwise)


def expect_equal(found, wanted, what):
    expect(found == wanted, f"{what}: {found!r} instead of {wanted!r}")


def expect_code(code, act):
    """Expects that `act` raises an error with `code`. Returns the error's message."""
    try:
        answer = act()
    except grpc.RpcError as error:
        expect_equal(error.code(), code, error.details())
        return error.details()
    raise AssertionError(f"an answer instead of {code.name}: {str(answer)[:200]}")


def decisions(answers):
    return [{1: "ALLOWED", 2: "DENIED"}.get(answer.decision) for answer in answers]


def ask(line):
    """Sends a line to run.py, which stops the server. Returns when the server is restarted."""
    print(line, flush=True)
    expect_equal(sys.stdin.readline(), "started\n", "run.py's answer")


def expect_channel_works(user):
    answer = api.one(check(user), timeout=TIMEOUT, wait_for_ready=True)
    expect_equal(answer.limits[0].remaining, MANY - 1, "remaining after a restart")


# --- tests ------------------------------------------------------------------------------------

def unary():
    answers = [api.one(check("unary", "/pay", request_id=f"u{i}"), timeout=TIMEOUT)
               for i in range(3)]
    expect_equal(decisions(answers), ["ALLOWED", "ALLOWED", "DENIED"], "decisions")
    expect_equal([answer.request_id for answer in answers], ["u0", "u1", "u2"], "request_ids")
    expect_equal(answers[0].limits[0].remaining, 1, "remaining")
    expect(3500 < answers[2].retry_after.seconds <= 3600, f"retry_after {answers[2].retry_after}")


def batch():
    checks = [check("batch", "/pay", request_id=f"b{i}") for i in range(4)]
    checks[1].domain = ""
    results = api.batch(frame(checks), timeout=TIMEOUT).results
    expect_equal([result.WhichOneof("result") for result in results],
                 ["response", "error", "response", "response"], "results")
    expect_equal(results[1].error.code, 3, "code of the invalid check")
    answers = [results[i].response for i in (0, 2, 3)]
    expect_equal(decisions(answers), ["ALLOWED", "ALLOWED", "DENIED"], "decisions")
    expect_equal([answer.request_id for answer in answers], ["b0", "b2", "b3"], "request_ids")


def stream():
    frames = [[check("stream", request_id=f"s{20 * i + j}") for j in range(20)] for i in range(5)]
    calls = Stream(api)
    calls.send(frames[0])
    answers = calls.results(20)
    for checks in frames[1:]:
        calls.send(checks)
    calls.half_close()
    answers += calls.results(80)
    expect(next(calls.call, None) is None, "more results than checks")
    expect_equal(calls.call.code(), grpc.StatusCode.OK, "status")
    expect_equal({answer.request_id for answer in answers}, {f"s{i}" for i in range(100)}, "ids")
    expect_equal(min(answer.limits[0].remaining for answer in answers), MANY - 100, "remaining")


def metadata():
    request = messages("sluice.v1.ListRulesRequest")()
    expect_code(grpc.StatusCode.UNAUTHENTICATED,
                lambda: api.list_rules(request, timeout=TIMEOUT))
    sent = [("authorization", "Bearer " + options_given.token), ("x-long", "v" * 4096),
            ("x-all-bytes-bin", bytes(range(256)))]
    rules = api.list_rules(request, timeout=TIMEOUT, metadata=sent).rules
    expect_equal([rule.rule for rule in rules], ["pay", "crowd", "many"], "rules")


def error_message():
    request = check("error", more={"größe": "v" * 8193})
    text = expect_code(grpc.StatusCode.INVALID_ARGUMENT, lambda: api.one(request, timeout=TIMEOUT))
    expect("größe" in text, f"message: {text!r}")


def large_checks(user):
    return frame([check(user, request_id=f"l{i}", more={"note": "n" * 800})
                  for i in range(1000)])


def large_batch():
    results = api.batch(large_checks("large"), timeout=TIMEOUT).results
    expect_equal([result.response.request_id for result in results],
                 [f"l{i}" for i in range(1000)], "request_ids")
    expect_equal(results[999].response.limits[0].remaining, MANY - 1000, "remaining")


def too_large():
    request = check("u" * 5 * MIB)
    expect_code(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: api.one(request, timeout=TIMEOUT))
    api.one(check("after"), timeout=TIMEOUT)


def unknown_method():
    for path in ("/sluice.v1.RateLimiter/NoSuchMethod", "/no.such.Service/CheckLimit"):
        call = channel.unary_unary(path)
        expect_code(grpc.StatusCode.UNIMPLEMENTED, lambda: call(b"", timeout=TIMEOUT))


def gzip():
    packed = {"compression": grpc.Compression.Gzip, "timeout": TIMEOUT}
    expect_equal(len(api.batch(large_checks("gzip"), **packed).results), 1000, "results")
    calls = Stream(api, **packed)
    for _ in range(2):
        calls.send([check("gzip") for _ in range(100)])
        calls.results(100)
    calls.half_close()
    expect(next(calls.call, None) is None, "more results than checks")
    request = check("u" * 5 * MIB)
    expect_code(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: api.one(request, **packed))


def deadline():
    api.one(check("deadline"), timeout=TIMEOUT)
    exceeded = grpc.StatusCode.DEADLINE_EXCEEDED
    with connect(options_given.silent) as silent:
        begin = time.monotonic()
        expect_code(exceeded, lambda: make_api(silent).one(check("deadline"), timeout=0.5))
        expect(time.monotonic() - begin < 5, "late")
    calls = Stream(api, timeout=0.5)
    calls.send([check("deadline")])
    calls.results(1)
    expect_code(exceeded, lambda: next(calls.call))
    calls.half_close()


def cancel():
    for _ in range(10):
        calls = Stream(api)
        calls.send([check("cancel")])
        calls.results(1)
        calls.send([check("cancel") for _ in range(1000)])
        calls.call.cancel()
        expect_equal(calls.call.code(), grpc.StatusCode.CANCELLED, "status")
        calls.half_close()
    api.one(check("cancel"), timeout=TIMEOUT)


def concurrent():
    calls = [api.one.future(check("concurrent", "/crowd"), timeout=TIMEOUT) for _ in range(64)]
    answers = decisions(call.result() for call in calls)
    expect_equal((answers.count("ALLOWED"), answers.count("DENIED")), (40, 24), "decisions")
    streams = [Stream(api) for _ in range(64)]
    for calls in streams:
        calls.send([check("concurrent")])
    for calls in streams:
        calls.results(1)
    for calls in streams:
        calls.half_close()
        expect(next(calls.call, None) is None, "more results than checks")


def health_check():
    for service in ("", "sluice.v1.RateLimiter"):
        expect_equal(api.health(health_of(service), timeout=TIMEOUT).status, 1, f"{service!r}")
    expect_code(grpc.StatusCode.NOT_FOUND,
                lambda: api.health(health_of("no.such"), timeout=TIMEOUT))


def health_watch():
    for service, status in (("", 1), ("no.such", 3)):
        watch = api.watch(health_of(service), timeout=TIMEOUT)
        expect_equal(next(watch).status, status, f"{service!r}")
        watch.cancel()
        expect_equal(watch.code(), grpc.StatusCode.CANCELLED, "status")


def reflection():
    request = messages("grpc.reflection.v1alpha.ServerReflectionRequest")
    services, file, unknown = api.reflect(iter([
        request(list_services="*"), request(file_containing_symbol="sluice.v1.RateLimiter"),
        request(file_containing_symbol="no.such.Symbol")]), timeout=TIMEOUT)
    names = {service.name for service in services.list_services_response.service}
    for name in ("sluice.v1.RateLimiter", "sluice.v1.Admin", "grpc.health.v1.Health"):
        expect(name in names, f"{name} is not among {names}")
    found = [descriptor_pb2.FileDescriptorProto.FromString(file).name
             for file in file.file_descriptor_response.file_descriptor_proto]
    expect("sluice/v1/rate_limiter.proto" in found, f"files: {found}")
    expect_equal(unknown.error_response.error_code, 5, "code of an unknown symbol")


def keepalive():
    options = [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 5_000),
               ("grpc.keepalive_permit_without_calls", 1),
               ("grpc.http2.max_pings_without_data", 0), ("grpc.use_local_subchannel_pool", 1)]
    with connect(options_given.address, options) as idle, \
            connect(options_given.address, options) as busy:
        states = []
        idle.subscribe(states.append)
        make_api(idle).one(check("keepalive"), timeout=TIMEOUT)
        calls = Stream(make_api(busy), timeout=60)
        calls.send([check("keepalive")])
        calls.results(1)
        time.sleep(35)
        after = states[states.index(grpc.ChannelConnectivity.READY):]
        expect_equal(after, [grpc.ChannelConnectivity.READY], "states of the idle connection")
        calls.send([check("keepalive")])
        calls.half_close()
        calls.results(1)


def reconnect():
    calls = Stream(api)
    calls.send([check("reconnect")])
    calls.results(1)
    ask("@kill")
    expect_code(grpc.StatusCode.UNAVAILABLE, lambda: next(calls.call))
    calls.half_close()
    expect_channel_works("reconnect")


def graceful_stop():
    watch = api.watch(health_of(), timeout=TIMEOUT)
    expect_equal(next(watch).status, 1, "health before")
    calls = Stream(api)
    calls.send([check("graceful")])
    calls.results(1)
    ask("@stop")
    expect_equal(next(watch).status, 2, "health while the server stops")
    watch.cancel()
    expect_code(grpc.StatusCode.UNAVAILABLE, lambda: next(calls.call))
    calls.half_close()
    expect_channel_works("graceful")


CHECKS = [unary, batch, stream, metadata, error_message, large_batch, too_large, unknown_method,
          gzip, deadline, cancel, concurrent, health_check, health_watch, reflection, keepalive,
          reconnect, graceful_stop]


def passes(run):
    begin = time.monotonic()
    try:
        run()
    except (AssertionError, grpc.RpcError, StopIteration) as error:
        print(f"FAIL {run.__name__}: {error!r}", flush=True)
        return False
    print(f"ok   {run.__name__} ({(time.monotonic() - begin) * 1000:.0f} ms)", flush=True)
    return True


parser = argparse.ArgumentParser()
parser.add_argument("descriptors")
for flag in ("--address", "--silent", "--token"):
    parser.add_argument(flag, required=True)
parser.add_argument("--tls-ca")
parser.add_argument("--only", default="")
options_given = parser.parse_args()
messages = Messages(options_given.descriptors)
channel = connect(options_given.address)
api = make_api(channel)
wanted = [run for run in CHECKS
          if not options_given.only or run.__name__ in options_given.only.split(",")]
if not wanted:
    parser.error(f"--only: no such test: {options_given.only}")
results = [passes(run) for run in wanted]
channel.close()
sys.exit(0 if all(results) else 1)
