"""Loads: runs a generator against a server for some seconds and measures the CPU that both use."""

import collections
import dataclasses
import json
import re
import struct
import subprocess
import time

from processes import cpu_clock, start
from sample import ADMITTED, Answers, Expected, Sample

FIRST_USER = "1000000"  # the first user of `sluice bench`
# Seconds of load before a measurement. After this time, nearly all of 100,000 users have counters,
# and servers have allocated their memory.
WARM_UP = 4.0  # unless --warm-up is given
# At each end of a measurement, CPU is not counted for this many seconds, because generators take a
# moment to start.
MARGIN = 0.2


@dataclasses.dataclass(frozen=True)
class Load:
    """Checks in a domain."""

    endpoint: str = "/pay"
    users: int = 100_000  # drawn evenly, unless `flags` says otherwise
    in_flight: int = 400  # messages in flight at any time, unless `rate` is set
    rate: float | None = None  # checks a second, however many are in flight
    connections: int = 4
    flags: tuple[str, ...] = ()  # other flags of `sluice bench`
    expected: Expected = ADMITTED
    domain: str = "bench"


def sluice_bench(sluice, load, server, seconds):
    """The command."""
    return [
        sluice, "bench", load.domain, f"endpoint={load.endpoint}", "--addr", server.address,
        "--keys", str(load.users), "--connections", str(load.connections),
        *(["--rate", str(load.rate)] if load.rate else ["--in-flight", str(load.in_flight)]),
        *load.flags, "--json",
        "--warm-up", milliseconds(WARM_UP), "--duration", milliseconds(seconds)]


def run_sluice_bench(sluice, load, server, seconds):
    output, used = watch(sluice_bench(sluice, load, server, seconds), server, seconds)
    result = json.loads(output)
    if not result.get("checks_per_second"):
        raise RuntimeError(f"nothing was answered: {output}")
    errors = {code: error["count"] for code, error in result["errors"].items()}
    answers = Answers(result["allowed"], result["denied"],
                      collections.Counter(errors), collections.Counter(result["sources"]))
    faults = load.expected.faults_of(answers)
    rate = result["checks_per_second"]
    if rate < 0.98 * result["target_rate"]:
        faults.append(f"{rate:,.0f} checks a second instead of {result['target_rate']:,.0f}")
    figures = figures_of(used, rate) | {
        "generator_cpu": result["client_cpu_us_per_check"],  # including MARGIN
        **{name: result["latency_us"][name] for name in ("p50", "p99", "p99.9")}}
    return Sample(figures, dict(answers.sources), faults)


def run_h2load(load, server, seconds, folder):
    """Repeats one check. h2load ignores the answers."""
    request = folder / "request"
    request.write_bytes(grpc_frame(check_request(load.endpoint, FIRST_USER)))
    output, used = watch(
        ["h2load", "--data", request, "-H", "content-type: application/grpc", "-H", "te: trailers",
         "--clients", str(load.connections), "--threads", "1",
         "--max-concurrent-streams", str(load.in_flight // load.connections),
         "--warm-up-time", milliseconds(WARM_UP), "--duration", milliseconds(seconds),
         f"http://{server.address}/sluice.v1.RateLimiter/CheckLimit"],
        server, seconds)
    rate = float(re.search(r"^finished in .*, ([\d.]+) req/s", output, re.M)[1])
    lost = re.search(r"(\d+) (failed), (\d+) (errored), (\d+) (timeout)", output).groups()
    faults = [f"{count} {how}" for count, how in zip(lost[::2], lost[1::2]) if count != "0"]
    return Sample(figures_of(used, rate), faults=faults)


def watch(command, server, seconds):
    """Runs a generator. Returns its output, and CPU and script calls for each measured second."""
    with start(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as generator:
        try:
            def read():
                return server.used() | {
                    "generator_cpu": time.clock_gettime(cpu_clock(generator.pid)),
                    "seconds": time.monotonic()}

            time.sleep(WARM_UP + MARGIN)
            before = read()
            time.sleep(seconds - 2 * MARGIN)
            used = {name: value - before[name] for name, value in read().items()}
            output, errors = generator.communicate(timeout=30)
        finally:
            generator.kill()
    if not output:
        raise RuntimeError(f"{command[0]}: {errors.strip()}")
    elapsed = used.pop("seconds")
    return output, {name: value / elapsed for name, value in used.items()}


def figures_of(used, per_second):
    """Figures by name. CPU is converted to seconds for a million checks."""
    return {"per_second": per_second} | {
        name: value / per_second * 1e6 if name.endswith("_cpu") else value
        for name, value in used.items()}


def milliseconds(seconds):
    return f"{seconds * 1000:.0f}ms"


def grpc_frame(message):
    return struct.pack(">BI", 0, len(message)) + message  # not compressed


def check_request(endpoint, user):
    """A CheckLimitRequest on the wire."""
    attributes = {"endpoint": endpoint, "user": user}
    return field(1, b"bench") + b"".join(
        field(2, field(1, name.encode()) + field(2, value.encode()))
        for name, value in attributes.items())


def field(number, data):
    """A protobuf field of at most 127 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data
