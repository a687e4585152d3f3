"""The measured servers: real processes, as context managers that stop them."""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

from sample import Answers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from free_port import free_port  # noqa: E402

START_TIMEOUT = 20  # seconds


class Process:
    """Runs `command` and waits for a line that contains `ready`. The line becomes `ready_line`."""

    def __init__(self, command, folder, ready, environment=None):
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("SLUICE_")}
        self.started = time.monotonic()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as output:
            self._log = pathlib.Path(output.name)
            self._child = start(command, stdout=output, stderr=subprocess.STDOUT,
                                env={**inherited, **(environment or {})})
        try:
            self.ready_line = self._wait_for(ready)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._child.kill()
        self._child.wait()

    @property
    def pid(self):
        return self._child.pid

    def cpu_seconds(self):
        """The CPU time so far of all threads, including ended ones."""
        return time.clock_gettime(cpu_clock(self.pid))

    def used(self):
        """The figures so far, by name."""
        return {"server_cpu": self.cpu_seconds()}

    def resident_megabytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) * 1024 / 1e6

    def _wait_for(self, text):
        deadline = self.started + START_TIMEOUT
        while time.monotonic() < deadline:
            ended = self._child.poll() is not None
            output = self._log.read_text(encoding="utf-8", errors="replace")
            for line in output.splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line
            if ended:
                break
            time.sleep(0.001)
        raise RuntimeError(f"{' '.join(map(str, self._child.args))}: does not start:\n{output}")


class NoopServer(Process):
    """A no-op server that allows every check, to measure the cost of gRPC alone."""

    def __init__(self, program, folder, threads, flag="--queues"):
        super().__init__([program, flag, str(threads)], folder, "ready grpc=")
        self.address = value_of("grpc", self.ready_line)


class Sluiced(Process):
    """A sluiced that counts in `redis`. If `redis` is None, it counts in its own memory."""

    def __init__(self, program, folder, rules, redis, flags=()):
        store = ["--redis", redis.url] if redis else []
        # A busy machine must not cause fallbacks, which would void the measurement.
        super().__init__(
            [program, "--rules", rules, *store, "--grpc", "127.0.0.1:0",
             "--http", "127.0.0.1:0", *flags],
            folder, "ready grpc=", {"SLUICE_REDIS_TIMEOUT": "900ms"})
        self.redis = redis
        self.address = value_of("grpc", self.ready_line)
        self._page = f"http://{value_of('http', self.ready_line)}/metrics"

    def used(self):
        if not self.redis:
            return super().used()
        return super().used() | {"redis_cpu": self.redis.cpu_seconds(),
                                 "script_calls": self.redis.script_calls()}

    def answers(self):
        """The answers so far, as the server counts them."""
        with urllib.request.urlopen(self._page, timeout=10) as page:
            return answers_on(page.read().decode())


class Redis(Process):
    """A separate Redis without persistence."""

    def __init__(self, folder, clustered=False):
        self.port = free_port()
        cluster = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()),
                   "--cluster-config-file", f"nodes-{self.port}.conf"] if clustered else []
        super().__init__(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder,
             "--save", "", "--appendonly", "no", *cluster],
            folder, "Ready to accept connections")

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *words):
        """Redis' answer to a command, as text."""
        return subprocess.run(
            ["redis-cli", "-p", str(self.port), *words], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=True, timeout=10).stdout

    def counters(self):
        return int(self.ask("DBSIZE"))

    def used_bytes(self):
        return int(re.search(r"^used_memory:(\d+)", self.ask("INFO", "memory"), re.M)[1])

    def script_calls(self):
        """The number of calls so far."""
        return self._command_stats("calls")

    def failed_script_calls(self):
        return self._command_stats("failed_calls")

    def _command_stats(self, field):
        stats = self.ask("INFO", "commandstats")
        found = re.search(rf"^cmdstat_evalsha:.*\b{field}=(\d+)", stats, re.M)
        return int(found[1]) if found else 0


class RedisCluster:
    """Masters without replicas, used like one Redis."""

    def __init__(self, folder, masters):
        self._nodes = []
        try:
            for _ in range(masters):
                self._nodes.append(Redis(folder, clustered=True))
            self._join()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for node in self._nodes:
            node.stop()

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)

    def cpu_seconds(self):
        return sum(node.cpu_seconds() for node in self._nodes)

    def script_calls(self):
        return sum(node.script_calls() for node in self._nodes)

    def _join(self):
        subprocess.run(
            ["redis-cli", "--cluster", "create", "--cluster-yes",
             *(f"127.0.0.1:{node.port}" for node in self._nodes)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=START_TIMEOUT)
        deadline = time.monotonic() + START_TIMEOUT
        while not all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self._nodes):
            if time.monotonic() > deadline:
                raise RuntimeError("the nodes do not form a cluster")
            time.sleep(0.05)


def start(command, **options):
    """Starts a process that ends with this program, even if this program is killed. Ctrl-C on the
    terminal reaches only this program, which then stops the process.
    """
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                            stdin=subprocess.DEVNULL, start_new_session=True, **options)


def answers_on(page):
    """The answers on the metrics page. The page counts by rule, so this is correct only if each
    check matches one rule.
    """
    decisions, sources, errors = (collections.Counter() for _ in range(3))
    for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", page, re.M):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        count = int(float(value))
        if name == "sluice_checks_total":
            decisions[label["decision"]] += count
            sources[label["source"].upper()] += count
        elif name == "sluice_refused_total":
            errors[label["code"]] += count
    return Answers(decisions["allowed"], decisions["denied"], errors, sources)


def value_of(name, line):
    return re.search(rf"\b{name}=(\S+)", line)[1]


def cpu_clock(pid):
    """Implements clock_getcpuclockid(3), which Python does not provide for processes."""
    return ~pid << 3 | 2
