"""A sluiced for the tests of `sluice top` and `sluice console`."""

import os
import subprocess

import running

RULES = """\
domain: shop
rules:
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits: [{algorithm: fixed_window, limit: 10, window: 1d}]
  - name: orders
    match: {endpoint: /orders}
    limits: [{algorithm: token_bucket, rate: 1/d, burst: 20000}]
"""


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return {**kept, **more}


class Watched:
    """A sluiced that can be killed and started again. It has `show_keys: true`."""

    def __init__(self, sluice, sluiced, *flags, address=None, rules=RULES):
        self.folder = running.directory()
        (self.folder / "rules").mkdir()
        (self.folder / "rules" / "shop.yaml").write_text(rules, encoding="utf-8")
        self.tool = sluice
        self.address = address or f"unix:{self.folder}/grpc.sock"
        self.command = [sluiced, "--rules", self.folder / "rules", "--grpc", self.address,
                        "--http", "127.0.0.1:0", *flags]
        self.start()

    def start(self):
        self.process, _ = running.start(
            self.command, "ready grpc=",
            env=environment(SLUICE_SHOW_KEYS="true", SLUICE_REDIS_TIMEOUT="900ms"))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def sluice(self, command, *arguments):
        return subprocess.run([self.tool, command, *arguments, "--addr", self.address], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False, env=environment())

    def check(self, times, *attributes):
        self.sluice("check", "shop", *attributes, "--repeat", str(times), "--timeout", "20s")
