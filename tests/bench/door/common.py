"""What the benchmarks in this folder share: the rules, a temporary folder for the rules, and
measured runs of unary calls."""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import loads
from processes import start

CONNECTIONS = 64
RULES = """
domain: bench
rules:
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits: [{algorithm: token_bucket, rate: 1000000/s, burst: 1000000}]
"""
PATH = b"/sluice.v1.RateLimiter/CheckLimit"


def load_options(doc):
    """The options of a benchmark that compares loads in several rounds."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


@contextlib.contextmanager
def folder_with_rules():
    """A temporary folder, and the folder in it that contains the rules."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = pathlib.Path(name)
        rules = folder / "rules"
        rules.mkdir()
        (rules / "bench.yaml").write_text(RULES, encoding="utf-8")
        yield folder, rules


def unary_calls(address, options, *flags):
    """The calls a second on CONNECTIONS connections, each with one call at a time."""
    output = finished(
        [options.bin / "sluice", "bench", "bench", "endpoint=/pay", "--addr", address,
         "--keys", str(options.users), "--connections", str(CONNECTIONS), "--in-flight",
         str(CONNECTIONS), "--duration", loads.milliseconds(options.seconds), "--json", *flags],
        options)
    return json.loads(output)["checks_per_second"]


def finished(command, options):
    """Runs a load. Returns its output."""
    with start(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        output, errors = child.communicate(timeout=120 + options.seconds)
    if child.returncode != 0:
        sys.exit(output + errors)
    return output
