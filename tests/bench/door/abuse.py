#!/usr/bin/python3
"""What honest callers notice of a hostile one: their p99 without it and beside it.

Usage: abuse.py BIN [--rate N] [--seconds S]
BIN is the folder with sluiced and sluice. Each abuser runs for S seconds beside an honest load of N
checks a second; in the end a table.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))

import http2  # noqa: E402
import loads  # noqa: E402
from connections import PATH, RULES  # noqa: E402
from processes import Redis, Sluiced, start  # noqa: E402

MESSAGE = loads.check_request("/pay", loads.FIRST_USER)


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
    """PINGs without end, on a new connection when refused."""
    piece = http2.frame(http2.PING, 0, 0, b"abcdefgh") * 50
    flood(address, stopped, piece)


def settings(address, stopped):
    """SETTINGS without end, on a new connection when refused."""
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
    """A thousand connections that say nothing after their preface."""
    sockets = [http2.connect(address) for _ in range(1_000)]
    stopped.wait()
    del sockets


ABUSERS = (never_reads, byte_a_second, resets, pings, settings, continuations, idle_connections)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "rules").mkdir()
        (folder / "rules/bench.yaml").write_text(RULES, encoding="utf-8")
        with Redis(folder) as redis, Sluiced(options.bin / "sluiced", folder, folder / "rules",
                                             redis) as server:
            honest = measured(options, server)
            print(f"{'alone':18} p99 {honest:7.0f} us", flush=True)
            for abuser in ABUSERS:
                beside(abuser, options, server, honest)


def beside(abuser, options, server, honest):
    stopped = threading.Event()
    thread = threading.Thread(target=attempt, args=(abuser, server.address, stopped), daemon=True)
    thread.start()
    time.sleep(0.5)
    p99 = measured(options, server)
    stopped.set()
    thread.join(timeout=30)
    print(f"{abuser.__name__:18} p99 {p99:7.0f} us  {p99 / honest:5.2f} x  "
          f"{server.resident_megabytes():6.1f} MB", flush=True)


def attempt(abuser, address, stopped):
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
