"""Real processes for tests in Python. They end with the test program."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402, F401 (tests use it as running.free_port)


def directory():
    """A new directory, removed after the tests."""
    made = tempfile.TemporaryDirectory(prefix="sluice-test-")
    unittest.addModuleCleanup(made.cleanup)
    return pathlib.Path(made.name)


def start(command, ready, **options):
    """Starts a process. Returns the process, and its first line that contains `ready`. All lines of
    the process are added to its list `heard`."""
    options.setdefault("stdin", subprocess.DEVNULL)
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    unittest.addModuleCleanup(process.wait)
    unittest.addModuleCleanup(process.kill)
    process.heard = heard = []
    for line in process.stdout:
        heard.append(line)
        if ready in line:
            break
    else:
        raise RuntimeError(f"{command[0]} ended before it was ready:\n" + "".join(heard))
    # If nobody reads the pipe, the process blocks when the pipe is full.
    threading.Thread(target=_pass_on, args=(process.stdout, heard), daemon=True).start()
    return process, line


def _pass_on(lines, heard):
    with lines:
        for line in lines:
            heard.append(line)
            sys.stderr.write(line)


def start_redis(folder, *flags, **options):
    """Starts a Redis on the unix socket `folder`/redis.sock. Returns the process and the URL."""
    process, _ = start(
        ["/usr/bin/redis-server", "--port", "0", "--unixsocket", folder / "redis.sock",
         "--save", "", "--dir", folder, *flags], "ready to accept connections", **options)
    return process, f"unix://{folder}/redis.sock"


def start_gate(redis_socket, *where):
    """Starts gate.py. Returns the process and its port."""
    process, line = start([sys.executable, pathlib.Path(__file__).with_name("gate.py"),
                           redis_socket, *where], "port ", stdin=subprocess.PIPE)
    unittest.addModuleCleanup(process.stdin.close)
    return process, line.split()[1]


def tell_gate(gate, *words):
    """Sets the gate's behavior. Returns when the behavior is in effect."""
    told = len(gate.heard)
    print(*words, file=gate.stdin, flush=True)
    wait_until(lambda: len(gate.heard) > told, 10, "the gate has read its input")


def start_sluiced(program, rules, redis):
    """Starts a sluiced with these rules (text of one file). Returns its gRPC and HTTP addresses."""
    folder = directory()
    (folder / "shop.yaml").write_text(rules, encoding="utf-8")
    # Tolerates a slow machine: see StoreTimeout::kLong in fleet.h.
    _, ready = start(
        [program, "--rules", folder, "--redis", redis, "--grpc", "127.0.0.1:0",
         "--http", "127.0.0.1:0"],
        "ready grpc=", env=dict(os.environ, SLUICE_REDIS_TIMEOUT="900ms"))
    return ready.split("grpc=")[1].split()[0], ready.split("http=")[1].split()[0]


@contextlib.contextmanager
def stopped(process):
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def busy_cores():
    """A context in which two busy programs run for each core, for at most 20 seconds."""
    spinners = [subprocess.Popen(["timeout", "20", sys.executable, "-c", "while True: pass"])
                for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.terminate()
            spinner.wait()


def resident_megabytes(process):
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def listens(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def wait_until(condition, seconds, what):
    """Waits until `condition` returns a true value. Returns this value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
