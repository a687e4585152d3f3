"""Callers at a bounded rate: for each server, one `sluice bench` of /strict and one of /local."""

import collections
import json
import subprocess
import threading
import time

from servers import LOCAL, STRICT

# The kind of calls that each server gets, as options of `sluice bench`.
RPCS = (("--rpc", "unary"), ("--rpc", "batch", "--checks", "8"), ("--rpc", "stream"))
SHARES = {"strict": 2 / 3, "local": 1 / 3}  # of the rate
USERS = {"strict": STRICT, "local": LOCAL}


class Tally:
    """The answers that callers of an endpoint got."""

    def __init__(self):
        self.sent = self.allowed = self.denied = 0
        self.sources = collections.Counter()
        self.errors = collections.Counter()
        self.messages = {}  # the first message of each error code
        self.lost = 0  # at most this many checks got no answer because their server died

    def add(self, run, was_lost):
        if was_lost:
            self.lost += run["failed"]
        self.sent += run["checks"]
        self.allowed += run["allowed"]
        self.denied += run["denied"]
        self.sources.update(run["sources"])
        for code, error in run["errors"].items():
            self.errors[code] += error["count"]
            self.messages.setdefault(code, error["first"])


class Load:
    def __init__(self, stand, round_name, rate, seconds):
        self.end = time.monotonic() + seconds
        self.program = stand.build / "bin/sluice"
        self.round_name = round_name
        self.tallies = {endpoint: Tally() for endpoint in USERS}
        self.lock = threading.Lock()
        self.threads = [
            threading.Thread(target=self.ask, args=(server, rpc, endpoint,
                                                    SHARES[endpoint] * rate / len(stand.servers)))
            for server, rpc in zip(stand.servers, RPCS, strict=True) for endpoint in USERS]
        for thread in self.threads:
            thread.start()

    def ask(self, server, rpc, endpoint, rate):
        """Sends checks until the load ends, even if the server dies and restarts meanwhile."""
        while (left := self.end - time.monotonic()) > 0.05:
            ended = subprocess.run(
                [self.program, "bench", "chaos", f"endpoint=/{endpoint}",
                 f"round={self.round_name}", "--keys", str(USERS[endpoint]), "--distribution",
                 "zipf", "--rate", f"{rate:.3f}", "--duration", f"{left * 1000:.0f}ms",
                 "--connections", "2", "--json", "--addr", server.grpc, *rpc],
                stdin=subprocess.DEVNULL, capture_output=True, check=False)
            run = json.loads(ended.stdout)
            if "checks" not in run:
                time.sleep(0.02)  # no server listens at the moment
                continue
            with self.lock:
                self.tallies[endpoint].add(run, b"was lost" in ended.stderr)

    def wait(self):
        for thread in self.threads:
            thread.join()
