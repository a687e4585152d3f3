"""Runs control_plane.js, a control plane for tests of rules by xDS, and reads its output."""

import json
import pathlib
import queue
import subprocess
import threading
import unittest

TIMEOUT = 60
# The largest sets take long: the thread that compiles them has a low priority.
LARGE_SET_TIMEOUT = 400


def config(domain, requests, unit="YEAR", name=""):
    """A resource. By default, its limit is per year, so that no window ends during a test."""
    limit = {"requests_per_unit": requests}
    if unit:
        limit["unit"] = unit
    return {"name": name, "domain": domain, "descriptors": [{"key": "user", "rate_limit": limit}]}


class ControlPlane:
    def __init__(self, protos, modules, port=0, tls=()):
        self.process = subprocess.Popen(
            ["node", "--tls-min-v1.3", pathlib.Path(__file__).with_suffix(".js"), protos, modules,
             f"127.0.0.1:{port}", *tls],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        unittest.addModuleCleanup(self.process.wait)
        unittest.addModuleCleanup(self.process.kill)
        unittest.addModuleCleanup(self.process.stdin.close)
        self.port = int(self.process.stdout.readline().split()[1])
        self.requests = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.requests.put(json.loads(line))

    def tell(self, **command):
        print(json.dumps(command), file=self.process.stdin, flush=True)

    def send(self, version, *resources):
        self.tell(send={"version": version, "resources": resources})

    def next(self, timeout=TIMEOUT):
        return self.requests.get(timeout=timeout)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)
