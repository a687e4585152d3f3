"""A description of the machine, and the CPU that other work used during the measurements."""

import os
import pathlib
import platform
import re
import resource
import subprocess
import time


def describe_machine(root):
    cpu = re.search(r"^model name\s*:\s*(.*)", read("/proc/cpuinfo"), re.M)
    memory = int(re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo"))[1]) * 1024 / 2**30
    commit = output("git", "-C", root, "describe", "--always", "--dirty") or "no git"
    redis = re.search(r"v=(\S+)", output("redis-server", "--version"))[1]
    return (f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
            f"{memory:.0f} GiB; Linux {platform.release()}, Redis {redis}, Sluice {commit}.")


def usage():
    """CPU seconds of the machine; CPU seconds of this program and its ended children; the time."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, read("/proc/stat").splitlines()[0].split()[1:9])
    machine = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    own = sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    return machine, own, time.monotonic()


def other_work(before, now, cores):
    """The share of the CPU that other programs used between two calls of `usage`."""
    machine, own, seconds = (later - earlier for later, earlier in zip(now, before))
    return max(0.0, machine - own) / (seconds * cores)


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def output(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=10).stdout.strip()
