#!/usr/bin/python3
"""Compares an adaptive limit (`adapt`) to fixed limits, in front of a real PostgreSQL whose queries need CPU: first
alone, then while other processes take half of the CPU. Prints a table.

Usage: tests/bench/adaptive_postgres.py [BUILD] [--seconds N]

BUILD (default: build) must contain release/bin and clients/. To fill clients/, run
`scripts/test_clients.sh python node`. PostgreSQL is Debian's `postgresql`; it runs in a temporary
folder, on a unix socket. Five processes call it: three by `sluice hold`, one by the Python client
and one by the Node client, each with four queries at a time. All of them share the machine with
PostgreSQL. Other load on the machine distorts the figures: under such load, PostgreSQL gets more
CPU if more queries run at a time.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

FIXED = (1, 2, 3, 4, 6, 8, 12, 16)
WORKERS = 4
QUERY = "SELECT sum(sqrt(x)) FROM generate_series(1, 250000) x"
RULES = """\
domain: database
rules:
{fixed}
  - name: adaptive
    match: {{limit: adaptive}}
    limits: [{{algorithm: concurrency, limit: 40, ttl: 30s, adapt: {{min: 1, latency: {latency}ms, share: 90%}}}}]
"""
NODE = """
const {{execFile}} = require('child_process');
const {{promisify}} = require('util');
const {{Client, Limited}} = require('sluice-client');
const client = new Client('{address}', {{deadline: 5000}});
const psql = () => promisify(execFile)('psql', {psql});
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function work() {{
  for (;;) {{
    try {{
      const begin = Date.now();
      await client.limited('database', {{limit: '{limit}'}}, psql);
      console.log(`${{(Date.now() - begin) / 1000}}`);
    }} catch (error) {{
      if (!(error instanceof Limited)) throw error;
      await sleep(20 + 80 * Math.random());
    }}
  }}
}}
for (let i = 0; i < {workers}; ++i) work();
"""
PYTHON = """
import random, subprocess, sys, threading, time
sys.path.insert(0, {path!r})
from sluice_client import Client, Limited
client = Client({address!r}, deadline=5)
def work():
    while True:
        try:
            with client.limited("database", {{"limit": {limit!r}}}):
                begin = time.monotonic()
                subprocess.run(["psql", *{psql}], check=True, stdout=subprocess.DEVNULL)
            sys.stdout.write(f"{{time.monotonic() - begin}}\\n")
            sys.stdout.flush()
        except Limited:
            time.sleep(random.uniform(0.02, 0.1))
for _ in range({workers}):
    threading.Thread(target=work).start()
"""


@contextlib.contextmanager
def running(command, ready=None, **options):
    """Runs a process group, and ends it with SIGTERM."""
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if ready else {}
    process = subprocess.Popen([str(it) for it in command], text=True, start_new_session=True,
                               **{"stdin": subprocess.DEVNULL, **output, **options})
    try:
        said = []
        while ready and not (said and ready in said[-1]):
            said.append(process.stdout.readline())
            if not said[-1]:
                sys.exit(f"{command[0]} has not started: {''.join(said)}")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@contextlib.contextmanager
def postgres(folder):
    """Runs a database; yields psql's arguments for the query."""
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        sys.exit("there is no PostgreSQL: apt install postgresql")
    user = {"user": "postgres"} if os.geteuid() == 0 else {}
    data = folder / "data"
    folder.chmod(0o777)
    subprocess.run([programs[-1] / "initdb", "-D", data, "-U", "shop", "-A", "trust", "--no-sync"], check=True,
                   stdout=subprocess.DEVNULL, cwd=folder, **user)
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off",
                "max_parallel_workers_per_gather": 0, "max_connections": 100}
    flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with running([programs[-1] / "postgres", "-D", data, *flags], ready="ready to accept", cwd=folder, **user):
        yield ["-h", str(folder), "-U", "shop", "-d", "postgres", "-Atqc", QUERY]


class Fleet:
    def __init__(self, build, folder, psql):
        self._build, self._folder, self._psql = build, folder, psql
        self._tool = build / "release/bin/sluice"
        self._address = f"unix:{folder}/sluice"

    @contextlib.contextmanager
    def serving(self, latency):
        fixed = "\n".join(f"  - name: fixed-{limit}\n    match: {{limit: '{limit}'}}\n    limits: "
                          f"[{{algorithm: concurrency, limit: {limit}, ttl: 30s}}]" for limit in FIXED)
        rules = self._folder / "rules"
        rules.mkdir(exist_ok=True)
        (rules / "database.yaml").write_text(RULES.format(fixed=fixed, latency=latency), "ascii")
        with running([self._build / "release/bin/sluiced", "--rules", rules, "--grpc",
                      self._address, "--http", "127.0.0.1:0"], ready="ready grpc="):
            yield

    def limit(self):
        """The current adaptive limit."""
        answer = subprocess.run([self._tool, "check", "database", "limit=adaptive", "--peek", "--addr",
                                 self._address], check=False, stdout=subprocess.PIPE, text=True).stdout
        return int(answer.split(" left)")[0].split()[-1])

    def run(self, limit, warm_up, seconds):
        """The queries a second, the time within which 90 % of them end, and the mean limit."""
        seen, limits = [], []
        callers = []
        with contextlib.ExitStack() as stack:
            for command, environment in self._callers(limit):
                process = stack.enter_context(running(command, stdout=subprocess.PIPE, env=environment))
                callers.append(process)
                threading.Thread(target=lambda lines=process.stdout: seen.extend(map(float, lines)),
                                 daemon=True).start()
            time.sleep(warm_up)
            first, begin, end = len(seen), time.monotonic(), time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(1)
                limits.append(self.limit() if limit == "adaptive" else limit)
            done, elapsed = seen[first:], time.monotonic() - begin
            if any(caller.poll() is not None for caller in callers):
                sys.exit("a caller has ended")
        return len(done) / elapsed, statistics.quantiles(done, n=10)[-1], statistics.mean(limits)

    def _callers(self, limit):
        hold = [str(self._tool), "hold", "--wait", "60s", "--addr", self._address, "database", f"limit={limit}", "--",
                "bash", "-c", 'b=$EPOCHREALTIME; psql "$@" >&2 && echo "$EPOCHREALTIME - $b" | bc', "psql", *self._psql]
        loop = f'for _ in {{1..{WORKERS}}}; do (while "$@" 2>/dev/null || [ $? = 1 ]; do :; done) & done; wait'
        for _ in range(3):
            yield ["bash", "-c", loop, "hold", *hold], None
        facts = {"address": self._address, "limit": str(limit), "psql": self._psql, "workers": WORKERS}
        clients = self._build.absolute() / "clients"
        yield ["/usr/bin/python3", "-c", PYTHON.format(path=str(clients / "python"), **facts)], None
        yield ["node", "-e", NODE.format(**facts)], {**os.environ, "NODE_PATH": str(clients / "node/node_modules")}


def print_row(title, row):
    rate, slow, limit = row
    print(f"{title:12} {limit:8.1f} {rate:12.1f} {1000 * slow:14.0f}", flush=True)


def compare(fleet, seconds, latency):
    print(f"{'':12} {'limit':>8} {'queries/s':>12} {'90 % within ms':>14}")
    rows = {}
    with fleet.serving(latency):
        for limit in FIXED:
            rows[limit] = fleet.run(limit, 2, seconds)
            print_row("fixed", rows[limit])
        adaptive = fleet.run("adaptive", 3 * seconds, 2 * seconds)
        print_row("adaptive", adaptive)
    best = max(rate for rate, _, _ in rows.values())
    within = max((rate for rate, slow, _ in rows.values() if 1000 * slow <= latency), default=best)
    print(f"adaptive: {adaptive[0] / best:.0%} of the best fixed limit's rate, "
          f"{adaptive[0] / within:.0%} of the highest rate at which 90 % of the queries take at "
          f"most {latency} ms\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", nargs="?", default="build", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    if not shutil.which("bc"):
        sys.exit("there is no bc: apt install bc")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    with tempfile.TemporaryDirectory() as name, postgres(pathlib.Path(name)) as psql:
        fleet = Fleet(options.build, pathlib.Path(name), psql)
        with fleet.serving(1000):
            _, slow, _ = fleet.run(os.cpu_count(), 2, options.seconds)
        latency = round(1500 * slow)  # as docs/adaptive.md says
        print("alone")
        compare(fleet, options.seconds, latency)
        print("while other processes take half of the CPU")
        with contextlib.ExitStack() as stack:
            for _ in range(os.cpu_count() // 2):
                stack.enter_context(running([sys.executable, "-c", "while True: pass"]))
            compare(fleet, options.seconds, latency)


if __name__ == "__main__":
    main()
