"""Real processes for tests in Python: they end with the test program, whatever it meets."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request


def directory():
    """A new one, gone when the tests are over."""
    made = tempfile.TemporaryDirectory(prefix="sluice-test-")
    unittest.addModuleCleanup(made.cleanup)
    return pathlib.Path(made.name)


def start(command, ready, **options):
    """The process, and its first line that contains `ready`."""
    options.setdefault("stdin", subprocess.DEVNULL)
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    unittest.addModuleCleanup(process.wait)
    unittest.addModuleCleanup(process.kill)
    heard = []
    for line in process.stdout:
        heard.append(line)
        if ready in line:
            break
    else:
        raise RuntimeError(f"{command[0]} ended before it was ready:\n" + "".join(heard))
    # Whoever fills a pipe that nobody reads stands still.
    threading.Thread(target=_pass_on, args=(process.stdout,), daemon=True).start()
    return process, line


def _pass_on(lines):
    with lines:
        sys.stderr.writelines(lines)


def start_redis(folder):
    """A Redis of the test's own, on the unix socket `folder`/redis.sock."""
    process, _ = start(
        ["/usr/bin/redis-server", "--port", "0", "--unixsocket", folder / "redis.sock",
         "--save", "", "--dir", folder], "ready to accept connections")
    return process, f"unix://{folder}/redis.sock"


def start_sluiced(program, rules, redis):
    """A sluiced with these rules (text of one file); its addresses of gRPC and HTTP."""
    folder = directory()
    (folder / "shop.yaml").write_text(rules, encoding="utf-8")
    # A slow machine is not what these tests are about: see StoreTimeout::kLong in fleet.h.
    _, ready = start(
        [program, "--rules", folder, "--redis", redis, "--grpc", "127.0.0.1:0",
         "--http", "127.0.0.1:0"],
        "ready grpc=", env=dict(os.environ, SLUICE_REDIS_TIMEOUT="900ms"))
    return ready.split("grpc=")[1].split()[0], ready.split("http=")[1].split()[0]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def wait_until(condition, seconds, what):
    """What `condition` returns as soon as it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")
