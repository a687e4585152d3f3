"""The cases of a round, by name and in order.

A case is a function that gets a stage and returns a sample.
"""

import dataclasses
import signal
import subprocess
import time

from loads import Load
from processes import start
from sample import GRANTED, Sample
from stage import FEW_CALLS, HOT_KEY, LOADS, LONE_CALLS, ONE_CALLER, UNARY, ZIPF

COUNTERS = 1_000_000
ONE_KEY_EACH = dataclasses.replace(LONE_CALLS, users=1)


def asked(load, *flags):
    """`flags` are sluiced's."""
    def run(stage):
        with stage.sluiced(flags=flags) as server:
            return stage.bench(server, load)
    return run


def cluster_asked(load):
    def run(stage):
        with stage.sluiced_on_cluster(masters=3) as server:
            return stage.bench(server, load)
    return run


def embedded_asked(load):
    def run(stage):
        with stage.embedded() as server:
            return stage.bench(server, load)
    return run


def prefetching(load, *flags):
    return asked(dataclasses.replace(load, domain="prefetch", expected=GRANTED), *flags)


def other_asked(load):
    def run(stage):
        with stage.sluiced(stage.other) as server:
            return stage.bench(server, load)
    return run


def noop_asked(load):
    return lambda stage: asked_noop(stage, stage.noop(), load)


def noop_http2_asked(load):
    return lambda stage: asked_noop(stage, stage.noop_http2(), load)


def asked_noop(stage, noop_server, load):
    """The no-op server decides nothing, so the table shows no sources for it."""
    with noop_server:
        sample = stage.bench(noop_server, load)
    sample.sources = {}
    return sample


def half(stage):
    load = Load(rate=stage.half_rate)
    with stage.sluiced() as server:
        return stage.bench(server, load)


def noop_half(stage):
    return asked_noop(stage, stage.noop(), Load(rate=stage.half_rate))


def after_overload(stage):
    with stage.sluiced() as server:
        before = stage.bench(server, UNARY)
        stage.overload(server, rate=2 * before["per_second"])
        sample = stage.bench(server, UNARY)
    sample.figures["per_second_before"] = before["per_second"]
    sample.faults += before.faults
    return sample


def noop_by_h2load(stage):
    with stage.noop() as server:
        return stage.h2load(server, LOADS["hot key"])


def hot_key_by_h2load(stage):
    load = LOADS["hot key"]
    with stage.sluiced() as server:
        sample = stage.h2load(server, load)
        answers = server.answers()
    sample.sources = dict(answers.sources)
    sample.faults += load.expected.faults_of(answers)
    return sample


def raw_round_trip(stage):
    return raw_calls(stage, clients=1, pipeline=1, a_second=10_000)


def raw_throughput(stage):
    return raw_calls(stage, clients=50, pipeline=32, a_second=50_000)


def raw_calls(stage, clients, pipeline, a_second):
    """Sends `a_second` * `stage.seconds` calls, as fast as Redis answers."""
    calls = int(a_second * stage.seconds)
    call = stage.raw_call
    with stage.redis() as redis:
        before = redis.cpu_seconds()
        result = call.run(redis, UNARY.users, calls, clients, pipeline)
        figures = {"per_second": float(result["rps"]),
                   "p50": 1e3 * float(result["p50_latency_ms"]),
                   "redis_cpu": (redis.cpu_seconds() - before) / calls * 1e6}
        faults = [] if redis.counters() else ["no counter was written"]
        if failed := redis.failed_script_calls():
            faults.append(f"{failed} calls failed")
    return Sample(figures, faults=faults)


def a_million_counters(stage):
    with stage.sluiced() as server:
        redis = server.redis
        stage.check_once(server)  # loads and connects everything
        empty = redis.used_bytes()
        with start(
                [stage.sluice, "bench", "m", "--addr", server.address,
                 "--keys", str(9 * COUNTERS), "--rpc", "batch",
                 "--checks", "1000", "--in-flight", "4", "--duration", "300s", "--json"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as generator:
            try:
                while redis.counters() < COUNTERS and generator.poll() is None:
                    time.sleep(0.02)
                generator.send_signal(signal.SIGINT)
                generator.communicate(timeout=10)
            finally:
                generator.kill()
        counters = redis.counters()
        faults = [] if counters >= COUNTERS else [f"only {counters:,} counters"]
        return Sample({"counter_bytes": (redis.used_bytes() - empty) / counters,
                       "resident": server.resident_megabytes()}, faults=faults)


def idle(stage):
    with stage.sluiced() as server:
        stage.check_once(server)
        started_in = time.monotonic() - server.started
        time.sleep(0.5)  # until the start is over
        before = server.cpu_seconds()
        time.sleep(stage.seconds)
        used = server.cpu_seconds() - before
        return Sample({"start": started_in * 1e3, "idle_cpu": used / stage.seconds * 1e3,
                       "resident": server.resident_megabytes()})


CASES = {
    "noop": noop_asked(UNARY),
    "noop http2": noop_http2_asked(UNARY),
    "unary": asked(UNARY),
    "new users": asked(LOADS["new users"]),
    "two rules": asked(LOADS["two rules"]),
    "hot key": asked(LOADS["hot key"]),
    "denied user": asked(LOADS["denied user"]),
    "denied site": asked(LOADS["denied site"]),
    "embedded": embedded_asked(UNARY),
    "embedded, hot key": embedded_asked(HOT_KEY),
    "hot key, prefetch": prefetching(HOT_KEY),
    "two rules, hot key, prefetch": prefetching(dataclasses.replace(HOT_KEY, endpoint="/orders")),
    "unary, prefetch": prefetching(UNARY),
    "zipf": asked(ZIPF),
    "zipf, prefetch": prefetching(ZIPF),
    "zipf, prefetch 1 s": prefetching(dataclasses.replace(ZIPF, endpoint="/longer")),
    "cluster": cluster_asked(UNARY),
    "8 threads": asked(UNARY, "--threads", "8"),
    "8 threads, hot key": asked(HOT_KEY, "--threads", "8"),
    "64 threads, one call each": asked(ONE_KEY_EACH, "--threads", "64"),
    "64 threads, one call each, prefetch": prefetching(ONE_KEY_EACH, "--threads", "64"),
    "noop, 64 x 1": noop_asked(LONE_CALLS),
    "64 x 1": asked(LONE_CALLS),
    "noop, 2 x 4": noop_asked(FEW_CALLS),
    "2 x 4": asked(FEW_CALLS),
    "noop, h2load": noop_by_h2load,
    "hot key, h2load": hot_key_by_h2load,
    "raw": raw_throughput,
    "batch": asked(LOADS["batch"]),
    "stream": asked(LOADS["stream"]),
    "raw round trip": raw_round_trip,
    "noop, one caller": noop_asked(ONE_CALLER),
    "noop http2, one caller": noop_http2_asked(ONE_CALLER),
    "one caller": asked(ONE_CALLER),
    "one caller, prefetch": prefetching(dataclasses.replace(ONE_CALLER, users=1)),
    "noop, half": noop_half,
    "half": half,
    "after overload": after_overload,
    "a million counters": a_million_counters,
    "idle": idle,
}

VERSUS_CASES = {
    case: run for name, load in LOADS.items()
    for case, run in ((f"{name}, other", other_asked(load)), (name, asked(load)))
}
