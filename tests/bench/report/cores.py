"""Where the host has put the two cores of this machine.

A virtual machine's cores may share a cache, or be moved to where they do not: threads that work
together are then slower by half, and what one program did there says nothing of another that had
its cores side by side.
"""

import os
import subprocess
import time

FAR = 2.0  # times the shortest way seen
PATIENCE = 15.0  # seconds until a measurement begins, near or far
TRIES = 3  # of a measurement


class Cores:
    """`program` prints the nanoseconds that a cache line takes from one core to the other."""

    def __init__(self, program, count=os.cpu_count()):
        self._program = program
        self._count = count
        self.shortest = self.longest = None
        self.repeated = self.kept = 0  # measurements made while they were apart

    def when_near(self, measure):
        """What `measure` returns; again, if the cores were moved apart meanwhile. The last try
        stands.
        """
        for tries_left in reversed(range(TRIES)):
            near = self._wait_until_near()
            result = measure()
            if near and self._are_near():
                break
            if tries_left:
                self.repeated += 1
            else:
                self.kept += 1
        return result

    def _wait_until_near(self):
        end = time.monotonic() + PATIENCE
        while not self._are_near():
            if time.monotonic() > end:
                return False
            time.sleep(0.5)
        return True

    def _are_near(self):
        """As near as they have been so far. Of more than two, nobody knows which ones are used."""
        if self._count != 2:
            return True
        way = float(subprocess.run([self._program], stdin=subprocess.DEVNULL, capture_output=True,
                                   check=True, timeout=10).stdout)
        self.shortest = min(way, self.shortest or way)
        self.longest = max(way, self.longest or way)
        return way <= FAR * self.shortest

    def notes(self):
        """Says how far apart they have been, if they have."""
        if self.longest and self.longest > FAR * self.shortest:
            yield (f"The host moved the cores: a cache line took {self.shortest:.0f} to "
                   f"{self.longest:.0f} ns from one to the other. What was measured while they "
                   f"were apart was measured again ({self.repeated} times); {self.kept} "
                   "measurements stand that were not made near.")
