#!/usr/bin/python3
"""Attacks on a running sluiced, one file each, while honest callers and probes call it.

Usage: run.py BIN [ATTACK...] [--seconds S] [--from-many] [--together] [--settle S] [--redis] [--tries N]
              [--slower TIMES]
BIN is the folder with sluiced and sluice. Without names, all attacks run, each against a server of
its own. Prints a table. The exit status is 1 if an attack succeeds. An attack fails if all of this
is true while it runs:

  - honest callers with a token get 99 % of their answers over gRPC and over HTTP
  - their p99 is at most 5 times (--slower) as long as usual. The usual p99 is measured before,
    while another process keeps a core busy. If it is below 2 ms, it counts as 2 ms
  - `sluice health` and /healthz always answer
  - the server's memory grows by at most 256 MiB
  - the server treats the attacker as the attack requires

Attackers do not share the address of honest callers: they have 127.0.0.2, or with --from-many 64
addresses. Their token is valid for another domain only. --together runs all attacks on the same
kind of server at the same time. --settle 60: 60 s after an attack, the server's memory must be at
most 64 MiB more than before the attack. --redis: the server counts in a real Redis, not in its own
memory. --tries 3: an attack counts only if it succeeds three times in a row, because other
processes may slow honest callers, too.
"""

import argparse
import contextlib
import importlib
import multiprocessing
import pathlib
import resource
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from attacker import MANY_ADDRESSES, ONE_ADDRESS, Attacker  # noqa: E402
from server import Server, run_beside  # noqa: E402
from honest import Callers, Probes  # noqa: E402

NO_ATTACKS = {"attacker", "honest", "hostile_redis", "run", "server"}
MOST_GROWTH, MOST_LEFT = 256, 64  # MiB
LEAST_ANSWERED = 0.99
LEAST_P99 = 2  # milliseconds; if the usual p99 is lower, it counts as this
HEAD_START = 10  # seconds for an attack to begin
PATIENCE = 60  # seconds for an attack to end when its time is over


def main():
    options = parse()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attacks = [importlib.import_module(name) for name in options.attacks]
    usual, failed = {}, 0
    print(f"{'':24} {'gRPC':>17} {'HTTP':>21} {'probes':>12}   memory", flush=True)
    for together in groups(attacks, options.together):
        kind = {"redis": options.redis or None, **getattr(together[0], "SERVER", {})}
        tls = kind.get("tls", False)
        if tls not in usual:
            usual[tls] = beside_a_spinner(tls, options)
        failed += all(besiege(together, kind, usual[tls], options) for _ in range(options.tries))
    return 1 if failed else 0


def parse():
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NO_ATTACKS)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("attacks", nargs="*", choices=[*known, []], metavar="ATTACK",
                        help=" ".join(known))
    parser.add_argument("--seconds", type=float, default=3, help="of each attack")
    parser.add_argument("--from-many", action="store_true", help="from 64 addresses")
    parser.add_argument("--together", action="store_true",
                        help="run attacks on the same kind of server at the same time")
    parser.add_argument("--settle", type=float,
                        help="seconds after an attack until the server must have freed memory")
    parser.add_argument("--tries", type=int, default=1,
                        help="an attack counts only if it succeeds this many times in a row")
    parser.add_argument("--slower", type=float, default=5,
                        help="highest permitted p99, in multiples of the usual p99")
    parser.add_argument("--redis", action="store_true", help="let the server count in a real Redis")
    options = parser.parse_intermixed_args()
    options.attacks = options.attacks or known
    return options


def groups(attacks, together):
    if not together:
        return [[attack] for attack in attacks]
    kinds = {}
    for attack in attacks:
        kinds.setdefault(repr(getattr(attack, "SERVER", {})), []).append(attack)
    return kinds.values()


def spin():
    while True:
        sum(range(1_000))


def beside_a_spinner(tls, options):
    """The results of honest callers while another process keeps a core busy."""
    with Server(options.bin, tls=tls) as server, contextlib.ExitStack() as stack:
        run_beside(stack, spin)
        result = Callers(server, options.seconds).result()
    show(f"(spinning process{', TLS' if tls else ''})", result)
    return result


def besiege(attacks, kind, usual, options):
    """Runs the attacks. Returns whether any of them succeeds."""
    with Server(options.bin, **kind) as server, contextlib.ExitStack() as stack:
        Callers(server, 0.3).result()  # so that the server has allocated the memory for them
        server.forget_peak()
        before = server.memory()
        probes, running = Probes(server), [Running(stack, it, server, options) for it in attacks]
        for it in running:
            it.begun.wait(HEAD_START)
        result = Callers(server, options.seconds).result()
        probed = probes.result()
        faults = [fault for it in running for fault in it.end()]
        grown = server.memory("VmHWM") - before
        faults += judge(result, usual, probed, grown, options.slower)
        if options.settle:
            time.sleep(options.settle)
            left = server.memory() - before
            probed = (*probed, left)
            if left > MOST_LEFT:
                faults.append(f"{left:.0f} MiB are still held")
    show(" + ".join(attack.__name__ for attack in attacks), result, probed, grown)
    for fault in faults:
        print(f"    FAILED: {fault}", flush=True)
    return bool(faults)


class Running:
    """An attack in a separate process."""

    def __init__(self, stack, attack, server, options):
        self.begun, self.stopped = multiprocessing.Event(), multiprocessing.Event()
        self.faults, sender = multiprocessing.Pipe(duplex=False)
        attacker = Attacker(server, self.begun, self.stopped,
                            MANY_ADDRESSES if options.from_many else ONE_ADDRESS)
        self.process = run_beside(stack, run_attack, attack, attacker, sender)

    def end(self):
        """Ends the attack. Returns what the server did wrong, according to the attack."""
        self.stopped.set()
        faults = self.faults.recv() if self.faults.poll(PATIENCE) else ["the attack does not end"]
        self.process.kill()
        self.process.join()
        return faults


def run_attack(attack, attacker, sender):
    try:
        sender.send(list(attack.attack(attacker) or []))
    except Exception:  # pylint: disable=broad-except
        sender.send([traceback.format_exc()])


def judge(result, usual, probed, grown, slower):
    """A sentence for each promise that does not hold."""
    for door, (answered, p99) in result.items():
        most = slower * max(usual[door][1], LEAST_P99)
        if answered < LEAST_ANSWERED:
            yield f"honest callers over {door} got {answered:.1%} of their answers"
        if p99 > most:
            yield f"p99 of honest callers over {door} is {p99:.1f} ms, more than {most:.1f}"
    if probed[1]:
        yield f"{len(probed[1])} of {probed[0]} probes failed: {', '.join(sorted(set(probed[1])))}"
    if grown > MOST_GROWTH:
        yield f"memory has grown by {grown:.0f} MiB"


def show(name, result, probed=None, grown=None):
    line = f"{name:24}"
    for answered, p99 in result.values():
        line += f" {answered:7.1%} {p99:8.2f} ms   "
    if probed:
        line += f"{probed[0] - len(probed[1]):3} of {probed[0]:3}  {grown:+6.0f} MiB"
        line += "".join(f", {left:+.0f} left" for left in probed[2:])
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
