#!/usr/bin/python3
"""The effect of a hostile caller on honest ones: their p99 without it and beside it.

Usage: abuse.py BIN [--rate N] [--seconds S] [--rounds N]
BIN is the folder with sluiced and sluice. Each abuser runs for S seconds beside an honest load of N
checks a second. The table shows the median p99 over all rounds, its ratio to that of an undisturbed
load ("alone"), and its ratio to that of a load beside a process that only spins ("busy").

A real abuser has a machine of its own. Here it shares the server's cores, which no server can
prevent, so it runs as a process of the lowest priority, as "busy" does: what it costs beyond "busy"
is the server's work for it. The highest memory of each is the server's, with all before it.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))

import http2  # noqa: E402
import loads  # noqa: E402
from common import PATH, folder_with_rules  # noqa: E402
from processes import Redis, Sluiced, start  # noqa: E402

MESSAGE = loads.check_request("/pay", loads.FIRST_USER)


def alone(_address, stopped):
    """No other caller."""
    stopped.wait()


def busy(_address, stopped):
    """Uses a core and does not call the server."""
    while not stopped.is_set():
        sum(range(1_000))


def never_reads(address, stopped):
    """Sends calls and reads no answer."""
    sock = http2.connect(address)
    sock.settimeout(0.2)
    stream = 1
    while not stopped.is_set():
        try:
            sock.sendall(http2.call(stream, PATH, MESSAGE))
            stream += 2
        except TimeoutError:
            pass


def byte_a_second(address, stopped):
    """Many connections whose requests trickle in."""
    request = http2.call(1, PATH, MESSAGE)
    sockets = [http2.connect(address) for _ in range(200)]
    for byte in request:
        for sock in sockets:
            sock.sendall(bytes([byte]))
        if stopped.wait(1):
            return


def resets(address, stopped):
    """Opens streams and resets them at once (CVE-2023-44487), on a new connection when refused."""
    while not stopped.is_set():
        sock = http2.connect(address)
        stream = 1
        try:
            while not stopped.is_set():
                piece = b""
                for _ in range(50):
                    piece += http2.frame(http2.HEADERS, http2.END_HEADERS, stream,
                                         http2.request_headers(PATH))
                    piece += http2.frame(http2.RST_STREAM, 0, stream, b"\0\0\0\x08")
                    stream += 2
                sock.sendall(piece)
        except OSError:
            sock.close()
            stopped.wait(0.01)


def pings(address, stopped):
    """Sends PINGs without end, on a new connection when refused."""
    piece = http2.frame(http2.PING, 0, 0, b"abcdefgh") * 50
    flood(address, stopped, piece)


def settings(address, stopped):
    """Sends SETTINGS without end, on a new connection when refused."""
    flood(address, stopped, http2.frame(http2.SETTINGS, 0, 0) * 50)


def continuations(address, stopped):
    """Headers that never end (VU#421644), on a new connection when refused."""
    first = http2.frame(http2.HEADERS, 0, 1, http2.request_headers(PATH))
    more = http2.frame(9, 0, 1, http2.literal(b"x", b"y" * 100) * 10) * 10
    flood(address, stopped, more, first)


def flood(address, stopped, piece, first=b""):
    while not stopped.is_set():
        sock = http2.connect(address)
        try:
            sock.sendall(first)
            while not stopped.is_set():
                sock.sendall(piece)
        except OSError:
            sock.close()
            stopped.wait(0.01)


def idle_connections(address, stopped):
    """A thousand connections that send nothing after their preface."""
    sockets = [http2.connect(address) for _ in range(1_000)]
    stopped.wait()
    del sockets


BASELINES = (alone, busy)
ABUSERS = (never_reads, byte_a_second, resets, pings, settings, continuations, idle_connections)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with (folder_with_rules() as (folder, rules), Redis(folder) as redis,
          Sluiced(options.bin / "sluiced", folder, rules, redis) as server):
        rounds = []
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            rounds.append({caller: beside(caller, options, server)
                           for caller in BASELINES + ABUSERS})
    show(rounds)


def show(rounds):
    def median(caller, figure):
        return statistics.median(results[caller][figure] for results in rounds)

    print(f"{'':18} {'p99':>9}  to alone  to busy  memory")
    for caller in BASELINES + ABUSERS:
        p99 = median(caller, "p99")
        print(f"{caller.__name__:18} {p99:6.0f} us  {p99 / median(alone, 'p99'):6.2f} x "
              f"{p99 / median(busy, 'p99'):6.2f} x  {median(caller, 'megabytes'):5.1f} MB")


def beside(caller, options, server):
    """The results of an honest load beside `caller`."""
    stopped = multiprocessing.Event()
    process = multiprocessing.Process(target=attempt, args=(caller, server.address, stopped),
                                      daemon=True)
    process.start()
    time.sleep(0.5)
    result = {"p99": measured(options, server), "megabytes": server.resident_megabytes()}
    stopped.set()
    process.join(timeout=30)
    process.kill()
    return result


def attempt(abuser, address, stopped):
    os.nice(19)
    try:
        abuser(address, stopped)
    except OSError as error:
        print(f"{abuser.__name__}: cut off: {error}", flush=True)


def measured(options, server):
    """The honest callers' p99, in microseconds."""
    command = [options.bin / "sluice", "bench", "bench", "endpoint=/pay", "--addr", server.address,
               "--keys", "1000", "--rate", str(options.rate), "--duration", loads.milliseconds(options.seconds),
               "--connections", "8", "--warm-up", "500ms", "--json"]
    with start(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        output, errors = child.communicate(timeout=60 + options.seconds)
    result = json.loads(output)
    if "latency_us" not in result:
        print(f"  honest callers got no answer: {errors.strip()}", flush=True)
        return float("inf")
    others = {source: count for source, count in result["sources"].items()
              if count and source != "STORE"}
    if others or any(result["errors"].values()):
        print(f"  honest callers got {result['errors']} {others}", flush=True)
    return result["latency_us"]["p99"]


if __name__ == "__main__":
    main()
