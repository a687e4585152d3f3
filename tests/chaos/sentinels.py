"""The environment for faults with Sentinel."""

import running
from resp import ask
from servers import PATIENCE
from stand import Stand


class Sentinels(Stand):
    """A master, its replica, and three sentinels."""

    NAME = "chaos"

    def __init__(self, build, timeout, rules):
        super().__init__(build, timeout, rules)
        self.ports = [running.free_port(), running.free_port()]
        self.processes = [self.start_redis(0), self.start_redis(1, "--replicaof", "127.0.0.1",
                                                                str(self.ports[0]))]
        self.sentinels = [self.start_sentinel() for _ in range(3)]
        self.wait_for_replica()
        nodes = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        self.start_servers(f"redis+sentinel://{nodes}/{self.NAME}")

    def start_redis(self, number, *flags):
        folder = self.folder / f"{number}"
        folder.mkdir(exist_ok=True)
        process, _ = running.start_redis(folder, "--port", str(self.ports[number]),
                                         "--repl-diskless-sync-delay", "0", *flags)
        return process

    def start_sentinel(self):
        port = running.free_port()
        config = self.folder / f"sentinel-{port}.conf"
        config.write_text(f"""port {port}
bind 127.0.0.1
dir {self.folder}
sentinel monitor {self.NAME} 127.0.0.1 {self.ports[0]} 2
sentinel down-after-milliseconds {self.NAME} 500
sentinel failover-timeout {self.NAME} 2000
""", encoding="ascii")
        running.start(["/usr/bin/redis-server", config, "--sentinel"], "+monitor")
        return port

    def master(self):
        """The number of the master, according to the first sentinel."""
        named = ask(self.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)
        return self.ports.index(int(named[1]))

    def kill_master(self):
        number = self.master()
        self.processes[number].kill()
        self.processes[number].wait()

    def mend(self):
        master = self.ports[self.master()]
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                self.processes[number] = self.start_redis(
                    number, "--replicaof", "127.0.0.1", str(master))
        self.wait_for_replica()

    def wait_for_replica(self):
        """Waits until the replica has all data, and every sentinel would promote it."""
        running.wait_until(self.replica_is_good, PATIENCE, "a replica")

    def replica_is_good(self):
        roles = [ask(port, "ROLE") for port in self.ports]
        if sorted(role[0] for role in roles) != ["master", "slave"]:
            return False
        if not all(role[3] == "connected" for role in roles if role[0] == "slave"):
            return False
        told = [ask(port, "SENTINEL", "MASTER", self.NAME) for port in self.sentinels]
        known = [dict(zip(fields[::2], fields[1::2], strict=True)) for fields in told]
        return all(fields["num-slaves"] == "1" and fields["num-other-sentinels"] == "2"
                   and fields["flags"] == "master" for fields in known)
