"""Runs the cases of a report in order, if possible while the cores are near each other."""

import functools
import subprocess
import time

from sample import Sample


def run_rounds(wanted, count, stage):
    """The samples of each round by case. `wanted`: the cases by name; each gets the stage. Every
    other round runs in reverse order, so that no case always follows the same case.
    """
    rounds = []
    start = time.monotonic()
    for number in range(count):
        samples = {}
        for name in list(wanted) if number % 2 == 0 else reversed(wanted):
            case = functools.partial(run_case, wanted[name], stage)
            samples[name] = stage.cores.when_near(case)
            done = number * len(wanted) + len(samples)
            left = (time.monotonic() - start) / done * (count * len(wanted) - done)
            stage.say(f"round {number + 1} of {count}, about {left:.0f} s left: "
                      f"{name}: {samples[name]}")
        rounds.append(samples)
    return rounds


def run_case(run, stage):
    """If a case fails, its rows are void, but the report continues."""
    try:
        return run(stage)
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Sample({}, faults=[str(error)])
