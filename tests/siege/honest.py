"""Honest callers and probes, which must be served while a server is attacked."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import multiprocessing
import subprocess
import threading
import time

from processes import start
from server import TIMEOUT, ask, connection_to

GRPC_RATE, HTTP_RATE = 500, 100  # requests a second of honest callers
HTTP_CALLERS = 5
PROBES = 0.25  # seconds between probes


class Callers:
    """Honest callers: `sluice bench` over gRPC, and some callers over HTTP. Half of the HTTP
    requests use a new connection each.
    """

    def __init__(self, server, seconds):
        self.seconds = seconds
        self.bench = start(server.tool(
            "bench", "shop", "endpoint=/pay", "--rate", str(GRPC_RATE), "--connections", "4",
            "--keys", "100", "--warm-up", "200ms", "--duration", f"{seconds * 1000:.0f}ms",
            "--timeout", f"{TIMEOUT}s", "--json"),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.results, sender = multiprocessing.Pipe(duplex=False)
        self.caller = multiprocessing.get_context("fork").Process(
            target=call_http, args=(server, seconds, sender), daemon=True)
        self.caller.start()

    def result(self):
        """For gRPC and HTTP, the share of answered requests, and the p99 in milliseconds."""
        output, _ = self.bench.communicate(timeout=self.seconds + 60)
        times = self.results.recv() if self.results.poll(self.seconds + 60) else []
        self.caller.kill()
        self.caller.join()
        bench = json.loads(output or "{}")
        answered = bench.get("allowed", 0) + bench.get("denied", 0)
        return {"grpc": (answered / (GRPC_RATE * self.seconds),
                         bench["latency_us"]["p99"] / 1e3 if answered else float("inf")),
                "http": (len(times) / (HTTP_RATE * self.seconds),
                         times[len(times) * 99 // 100] * 1e3 if times else float("inf"))}


def call_http(server, seconds, sender):
    """Sends the times of answered requests to the parent process, sorted."""
    with concurrent.futures.ThreadPoolExecutor(HTTP_CALLERS) as callers:
        times = callers.map(lambda _: call_http_once_in_a_while(server, seconds),
                            range(HTTP_CALLERS))
        sender.send(sorted(itertools.chain(*times)))


def call_http_once_in_a_while(server, seconds):
    """How long each answer took, counted from when its request was due."""
    body = json.dumps({"domain": "shop", "attributes": {"endpoint": "/pay", "user": "1"}})
    kept, times = connection_to(server), []
    begin = time.monotonic()
    for number in range(int(HTTP_RATE * seconds / HTTP_CALLERS)):
        due = begin + number * HTTP_CALLERS / HTTP_RATE
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() > begin + 2 * seconds + TIMEOUT:
            break
        try:
            status, _ = ask(server, "/v1/check", server.tokens["honest"], body,
                            kept if number % 2 else None)
            if status == 200:
                times.append(time.monotonic() - due)
        except (OSError, http.client.HTTPException):
            kept.close()  # the next request connects again
    kept.close()
    return times


class Probes(threading.Thread):
    """Probes the server as a kubelet does: `sluice health`, then /healthz."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stopped, self.sent, self.failed = server, threading.Event(), 0, []
        self.start()

    def run(self):
        while not self.stopped.wait(PROBES):
            for name, probe in (("sluice health", self.health), ("/healthz", self.healthz)):
                self.sent += 1
                if not probe():
                    self.failed.append(name)

    def health(self):
        return subprocess.run(self.server.tool("health", "--timeout", "1s"), check=False,
                              stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    def healthz(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ask(self.server, "/healthz")[0] == 200
        return False

    def result(self):
        """The number of probes, and the names of the probes that failed."""
        self.stopped.set()
        self.join()
        return self.sent, self.failed
