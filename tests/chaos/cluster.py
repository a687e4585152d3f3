"""The environment for faults in a Redis Cluster."""

import contextlib
import re
import subprocess

import running
from resp import Redis, RedisError, ask
from servers import PATIENCE
from stand import Stand


class Cluster(Stand):
    """Three masters, each with a replica."""

    NODES = 6

    def __init__(self, build, timeout, rules):
        super().__init__(build, timeout, rules)
        self.ports = [running.free_port() for _ in range(self.NODES)]
        self.bus_ports = [running.free_port() for _ in range(self.NODES)]
        self.processes = [self.start_node(number) for number in range(self.NODES)]
        subprocess.run(["redis-cli", "--cluster", "create", *self.addresses(),
                        "--cluster-replicas", "1", "--cluster-yes"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True, timeout=60)
        self.mend()
        self.start_servers("redis+cluster://" + ",".join(self.addresses()))

    def addresses(self):
        return [f"127.0.0.1:{port}" for port in self.ports]

    def start_node(self, number):
        folder = self.folder / f"{number}"
        folder.mkdir(exist_ok=True)
        process, _ = running.start_redis(
            folder, "--port", str(self.ports[number]), "--cluster-enabled", "yes",
            "--cluster-port", str(self.bus_ports[number]), "--cluster-node-timeout", "1000",
            "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
        return process

    def masters(self):
        """The numbers of the nodes that own slots, according to a live node."""
        alive = next(number for number, process in enumerate(self.processes)
                     if process.poll() is None)
        return sorted({self.ports.index(port) for _, _, port in self.slots(self.ports[alive])})

    @staticmethod
    def slots(port):
        """The owners of slots, according to one node, as (first slot, last slot, master's port)."""
        return frozenset((first, last, master[1])
                         for first, last, master, *_ in ask(port, "CLUSTER", "SLOTS"))

    @staticmethod
    def epoch(port):
        """The epoch of a node's claim to its slots, according to the node. Newer claims have
        greater epochs."""
        return int(re.search(r"cluster_my_epoch:(\d+)", ask(port, "CLUSTER", "INFO"))[1])

    def kill_master(self):
        number = self.masters()[0]
        self.processes[number].kill()
        self.processes[number].wait()

    def mend(self):
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                self.processes[number] = self.start_node(number)
        running.wait_until(self.is_whole, PATIENCE, "every master has a replica")

    def is_whole(self):
        """Whether every master has a replica, and all nodes agree on the owners of slots. If the
        new owner of a slot dies before the nodes agree, no node owns the slot."""
        roles = [ask(port, "ROLE") for port in self.ports]
        states = [ask(port, "CLUSTER", "INFO") for port in self.ports]
        return (all("cluster_state:ok" in state for state in states)
                and len({self.slots(port) for port in self.ports}) == 1
                and sum(role[0] == "master" for role in roles) == self.NODES // 2
                and all(len(role[2]) == 1 if role[0] == "master" else role[3] == "connected"
                        for role in roles))

    def move_slot(self, slot, source, target):
        """Moves a slot with its keys from one master to another, while the slot is in use. `source`
        and `target` are the masters' numbers."""
        ids = [ask(self.ports[number], "CLUSTER", "MYID") for number in (source, target)]
        given, taken = Redis(self.ports[source]), Redis(self.ports[target])
        with contextlib.closing(given), contextlib.closing(taken):
            taken("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
            given("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
            while keys := given("CLUSTER", "GETKEYSINSLOT", slot, 10):
                given("MIGRATE", "127.0.0.1", self.ports[target], "", 0, 5000, "KEYS", *keys)

            # If several nodes claim a slot, the greatest epoch wins. If the old owner's epoch is
            # greater, the new owner gives the slot back and deletes its keys.
            def is_greater():
                taken("CLUSTER", "BUMPEPOCH")
                return self.epoch(self.ports[source]) < self.epoch(self.ports[target])

            running.wait_until(is_greater, PATIENCE, "the new owner's epoch is greater")
            taken("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
            # If the old owner has given up its last slot, it has become a replica and rejects the
            # command.
            with contextlib.suppress(RedisError):
                given("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
