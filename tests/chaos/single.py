"""The environment for most faults."""

import contextlib
import os
import struct

import running
from resp import ask
from stand import Stand


class Single(Stand):
    """One Redis with the host name redis.test. The name resolves to Redis, or to a gate in front
    of Redis."""

    GATE = "127.0.0.2"
    ADDRESSES = ("127.0.0.1", "127.0.0.3")

    def __init__(self, build, timeout, rules):
        super().__init__(build, timeout, rules)
        self.socket = self.folder / "redis.sock"
        self.names = self.folder / "names"
        self.clock = self.folder / "clock"
        self.set_clock(0)
        self.address = self.ADDRESSES[0]
        self.point_name_to(self.address)
        self.port = running.free_port()
        self.start_redis()
        self.gate, _ = running.start_gate(self.socket, self.GATE, str(self.port))
        self.start_servers(f"redis://redis.test:{self.port}", CHOSEN_NAMES=str(self.names),
                           LD_PRELOAD=self.library("chosen_names"))

    def library(self, name):
        return str(self.build / f"tests/support/libsluice_test_{name}.so")

    def start_redis(self, *flags):
        environment = dict(os.environ, LD_PRELOAD=self.library("shifted_clock"),
                           SLUICE_CLOCK_FILE=str(self.clock))
        self.redis, _ = running.start_redis(self.folder, "--port", str(self.port), "--bind",
                                            self.address, *flags, env=environment)

    def kill_redis(self):
        self.redis.kill()
        self.redis.wait()

    def ask(self, *words):
        return ask(self.socket, *words)

    def set_clock(self, seconds):
        """Sets how many seconds Redis' clock is ahead of the machine's clock."""
        with open(self.clock, "r+b" if self.clock.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))

    def point_name_to(self, address, milliseconds=0):
        """Sets the address of Redis' name, and how long the resolution of the name takes."""
        replacement = self.names.with_suffix(".new")
        replacement.write_text(f"{address} {milliseconds}\n", encoding="ascii")
        replacement.rename(self.names)

    def change_address(self):
        """Changes Redis' address. Its name still resolves to the old address."""
        self.address = next(other for other in self.ADDRESSES if other != self.address)
        self.ask("CONFIG", "SET", "bind", self.address)
        self.cut_connections()

    def cut_connections(self):
        self.ask("CLIENT", "KILL", "TYPE", "normal")

    def tell_gate(self, *words):
        running.tell_gate(self.gate, *words)

    @contextlib.contextmanager
    def through_gate(self):
        """In this context, all servers' connections to Redis go through the gate."""
        self.tell_gate("delay", 0)
        self.point_name_to(self.GATE)
        self.cut_connections()
        self.servers.wait_for_store()
        yield
        self.tell_gate("delay", 0)
        self.point_name_to(self.address)
        self.cut_connections()
        self.servers.wait_for_store()
