#!/usr/bin/python3
"""Compares the latency of decisions with and without swaps of rules by xDS.

Usage: xds_swaps.py SLUICE SLUICED PROTO_DIRECTORY NODE_MODULES [--seconds S] [--rounds N] [--rate R]
The tests make NODE_MODULES (ctest -R node_client_packages). In each round, the server decides R
checks a second for S seconds without swaps, then for S seconds in which a control plane sends a
set of 100 resources twice a second. Prints the p99 of both parts, and how often Redis answered
late and its breaker opened. After the rounds, the server compiles one set of 50,000 descriptors
under the same load.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

# pylint: disable=wrong-import-position
import control_plane  # noqa: E402
import running  # noqa: E402

LARGE = {"version": "large", "domains": 5000, "descriptors": 10}


class Stand:
    def __init__(self, options):
        self.options = options
        folder = running.directory()
        running.start_redis(folder)
        self.plane = control_plane.ControlPlane(options.protos.resolve(),
                                                options.modules.resolve())
        _, ready = running.start(
            [options.sluiced, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "off",
             "--redis", f"unix://{folder}/redis.sock", "--envoy-xds", f"127.0.0.1:{self.plane.port}"],
            "ready grpc=")
        words = dict(word.split("=", 1) for word in ready.split() if "=" in word)
        self.address, self.http = words["grpc"], words["http"]
        self.plane.next()
        self.sets = 0
        self.swap()

    def swap(self):
        self.sets += 1
        rules = [control_plane.config(f"edge-{i}", 10**6 + self.sets) for i in range(100)]
        self.plane.send(str(self.sets), *rules)
        answer = self.plane.next()
        assert answer["version"] == str(self.sets) and not answer["error"], answer

    def load(self, seconds):
        return subprocess.Popen(
            [self.options.sluice, "bench", "edge-0", "rule=user", "--key", "descriptor", "--keys",
             "10000", "--rate", str(self.options.rate), "--warm-up", "1s", "--duration",
             f"{seconds}s", "--json", "--addr", self.address], text=True, stdout=subprocess.PIPE)

    def late_answers(self):
        page = running.get(f"http://{self.http}/metrics")
        return {name: sum(map(float, re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.M)))
                for name in ("sluice_redis_late_answers_total",
                             "sluice_redis_breaker_openings_total")}

    def measure(self, swaps):
        load = self.load(self.options.seconds)
        began = time.monotonic()
        while load.poll() is None:
            if swaps and time.monotonic() - began > 1:
                self.swap()
            time.sleep(0.5)
        return json.loads(load.stdout.read())

    def compile_large(self):
        load = self.load(10)
        time.sleep(3)
        began = time.monotonic()
        self.plane.tell(large=LARGE)
        answer = self.plane.next(control_plane.LARGE_SET_TIMEOUT)
        took = time.monotonic() - began
        assert answer["version"] == "large" and not answer["error"], answer
        load.wait()
        return took, json.loads(load.stdout.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("sluice", "sluiced", "protos", "modules"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2000)
    stand = Stand(parser.parse_args())
    ratios = []
    for _ in range(stand.options.rounds):
        quiet, swapped = stand.measure(False), stand.measure(True)
        ratios.append(p99(swapped) / p99(quiet))
        print(f"p99 quiet {p99(quiet)} us, swapped {p99(swapped)} us ({ratios[-1]:.2f} times), "
              f"{stand.sets} sets", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}; {stand.late_answers()}")
    took, report = stand.compile_large()
    print(f"50,000 descriptors compiled in {took:.2f} s, meanwhile {report}; {stand.late_answers()}")


def p99(report):
    return report["latency_us"]["p99"]


if __name__ == "__main__":
    main()
