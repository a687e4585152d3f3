"""Measures Sluice and prints the performance table; scripts/bench.sh builds the programs first."""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

import cases
import loads
import rows
from machine import describe_machine, other_work, usage
from rounds import run_rounds
from stage import Stage
from table import line_of, markdown

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ROOT = pathlib.Path(__file__).resolve().parents[3]

EPILOG = """\
Each case runs once in every round. Every other round runs in reverse order, so that other work of
the machine affects all cases alike. The table shows medians of the rounds; ratios are computed
within a round. Generator, server and Redis share the machine: let nothing else run on it. On a
virtual machine of two cores, a measurement is repeated if the host moved the cores far from each
other meanwhile.
docs/performance.md explains the rows.

Exit status: 0; 1 if a row is void; 2 if the command line is wrong; 128 + N if signal N ended it.
"""


def main():
    options = parse()
    for ending in ENDINGS:
        signal.signal(ending, stop)
    known = cases.VERSUS_CASES if options.versus else cases.CASES
    wanted = {name: run for name, run in known.items()
              if any(name in row.cases for row in options.rows)}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        stage = Stage(ROOT / "build/release", pathlib.Path(folder), options.seconds,
                      options.versus, say)
        before = usage()
        rounds = run_rounds(wanted, options.rounds, stage)
        others = other_work(before, usage(), os.cpu_count())
    lines = [line_of(row, rounds) for row in options.rows]
    notes = [describe_machine(ROOT),
             f"{options.rounds} rounds of {options.seconds:g} s a case; other work took "
             f"{others:.0%} of the CPU meanwhile.", *stage.notes, *stage.cores.notes()]
    print("\n".join([markdown(options.rows, lines), "", *notes]))
    if options.json:
        write_json(options.json, notes, lines, rounds)
    return 1 if any(line.is_void for line in lines) else 0


def write_json(path, notes, lines, rounds):
    report = {"notes": notes,
              "lines": [dataclasses.asdict(line) for line in lines],
              "rounds": [{name: dataclasses.asdict(sample) for name, sample in samples.items()}
                         for samples in rounds]}
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh", description=__doc__.partition(";")[0] + ".", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--seconds", type=at_least(1, float), default=3.0, metavar="S",
                        help="seconds of a measurement; at least 1 (default: 3)")
    parser.add_argument("--rounds", type=at_least(1, int), default=3, metavar="N",
                        help="number of rounds; at least 1 (default: 3)")
    parser.add_argument("--warm-up", type=at_least(0.5, float), default=loads.WARM_UP, metavar="S",
                        help="seconds of load before each measurement; at least 0.5 (default: "
                             f"{loads.WARM_UP:g}); if it is below the default, some of the "
                             "100,000 users send their first check during the measurement")
    parser.add_argument("--cases", type=regex, default=re.compile(""), metavar="REGEX",
                        help="measure only the rows whose titles match REGEX")
    parser.add_argument("--json", type=new_file, metavar="FILE",
                        help="also write the table and all measurements to FILE")
    parser.add_argument("--versus", type=program, metavar="SLUICED",
                        help="compare the build with the program SLUICED instead of printing "
                             "the usual rows; to measure a difference of one percent, use many "
                             "short rounds")
    options = parser.parse_args()
    loads.WARM_UP = options.warm_up
    options.rows = [row for row in (rows.VERSUS_ROWS if options.versus else rows.ROWS)
                    if options.cases.search(row.title)]
    if not options.rows:
        parser.error(f"argument --cases: no title matches '{options.cases.pattern}'")
    return options


def at_least(least, number):
    def convert(text):
        try:
            if number(text) >= least:
                return number(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least {least}")
    return convert


def regex(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regular expression: {error}") from None


def new_file(text):
    path = pathlib.Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is not allowed; allowed is a file in an existing directory")
    return path


def program(text):
    path = pathlib.Path(text).absolute()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"'{text}' is not a program")
    return path


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def stop(number, _):
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)  # another signal must not interrupt the stop
    say(f"ended by {signal.Signals(number).name}")
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
