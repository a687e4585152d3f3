"""The distance between the two cores of this machine.

The host may move a virtual machine's cores to physical cores without a common cache. Cooperating
threads then have about half of their speed, so a measurement on near cores cannot be compared with
a measurement on distant cores.
"""

import os
import subprocess
import time

NEAR = 100.0  # nanoseconds; a cache line takes 25 to 60 with a common cache, else 150 and more
PATIENCE = 180.0  # seconds that a report spends in total on waiting and repeating


class Cores:
    """`program` prints how many nanoseconds a cache line takes from one core to the other."""

    def __init__(self, program, count=os.cpu_count()):
        self._program = program
        self._count = count
        self._patience = PATIENCE
        self._apart = 0.0  # the longest time of a cache line, if above NEAR; in nanoseconds
        self.repeated = 0  # measurements repeated because the cores became distant meanwhile
        self.kept = 0  # measurements kept although the cores were distant

    def when_near(self, measure):
        """Waits until the cores are near, and returns the result of `measure`. Repeats both if the
        cores became distant during `measure`, until PATIENCE is used up.
        """
        while self._wait_until_near():
            begin = time.monotonic()
            result = measure()
            if self._are_near():
                return result
            self._patience -= time.monotonic() - begin
            if self._patience <= 0:
                self.kept += 1
                return result
            self.repeated += 1
        self.kept += 1
        return measure()

    def _wait_until_near(self):
        while not self._are_near():
            if self._patience <= 0:
                return False
            time.sleep(0.5)
            self._patience -= 0.5
        return True

    def _are_near(self):
        """Returns True unless there are two cores: with more, it is unknown which ones are used."""
        if self._count != 2:
            return True
        try:
            nanoseconds = float(subprocess.run(
                [self._program], stdin=subprocess.DEVNULL, capture_output=True, check=True,
                timeout=10).stdout)
        except (OSError, ValueError, subprocess.SubprocessError):
            return False
        if nanoseconds > NEAR:
            self._apart = max(self._apart, nanoseconds)
        return nanoseconds <= NEAR

    def notes(self):
        """A note if the cores have been distant."""
        if self.repeated or self.kept or self._apart:
            yield ("The host moved the cores far from each other (a cache line took "
                   f"{self._apart:.0f} ns from one to the other): {self.repeated} measurements "
                   f"were repeated, {self.kept} were kept although the cores were far from each "
                   "other.")
