"""Computes the lines of the table from the samples of all rounds."""

import dataclasses
import statistics

FORMATS = {
    "/s": "{:,.0f}/s",
    "µs": "{:,.0f} µs",
    "s": "{:.2f} s",
    "ms": "{:,.0f} ms",
    "ms/s": "{:.2f} ms/s",
    "MB": "{:,.1f} MB",
    "B": "{:,.0f} B",
    "×": "{:.2f} ×",
}
MOST_IN_A_CELL = 120  # characters; a failed program's output may be longer
CPU = ("server_cpu", "redis_cpu", "generator_cpu")
# CPU is in seconds for a million checks.
HEADER = ("", "median", "compared", "spread", "target", "", "CPU of server", "of Redis",
          "of generator", "decided by")


@dataclasses.dataclass
class Line:
    """A line of the table, from the rounds in which all cases of the row were measured.

    None: there is no figure.
    """

    title: str
    value: float | None  # median
    compared: float | None  # median
    spread: float | None  # of `compared`, else of `value`: (highest - lowest) / median
    verdict: str  # `void: why`, `met` or `missed`; empty: valid, no target
    cpu: dict[str, float]  # medians, seconds for a million checks
    sources: dict[str, float]  # share of the checks

    @property
    def is_void(self):
        return self.verdict.startswith("void")


def line_of(row, rounds):
    """The line of `row` for `rounds`. A round is a dictionary of samples by case."""
    fault = next((f"{case}: {fault}" for each in rounds for case in row.cases
                  for fault in each[case].faults), None)
    whole = [each for each in rounds if all(each[case].figures for case in row.cases)]
    judged = [row.judged(each) for each in whole]
    middle = median(judged)
    if fault:
        verdict = f"void: {fault}"
    elif row.target:
        verdict = "met" if row.target.is_met(middle) else "missed"
    else:
        verdict = ""
    samples = [each[row.cases[0]] for each in whole]
    return Line(
        row.title, median(map(row.value, whole)),
        median(map(row.compared, whole)) if row.compared else None, spread(judged), verdict,
        {name: median(sample[name] for sample in samples) for name in CPU
         if samples and name in samples[0].figures},
        shares(samples))


def median(values):
    values = list(values)
    return statistics.median(values) if values else None


def spread(values):
    """None if there is no figure, or if the median is 0."""
    middle = median(values)
    return (max(values) - min(values)) / abs(middle) if middle else None


def shares(samples):
    total = sum(sum(sample.sources.values()) for sample in samples)
    found = {source: sum(sample.sources.get(source, 0) for sample in samples) / total
             for sample in samples for source in sample.sources}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def markdown(rows, lines):
    table = [HEADER, ("---",) + ("---:",) * 3 + ("---",) * 2 + ("---:",) * 3 + ("---",)]
    for row, line in zip(rows, lines):
        table.append((
            line.title, shown(line.value, row.unit), shown(line.compared, row.compared_unit),
            "" if line.spread is None else f"{line.spread:.0%}",
            f"{row.target.relation} {shown(row.target.bound, judged_unit(row))}" if row.target
            else "",
            line.verdict, *(shown(line.cpu.get(name), "s") for name in CPU),
            ", ".join(percent(source, share) for source, share in line.sources.items())))
    return "\n".join("| " + " | ".join(map(one_line, cells)) + " |" for cells in table)


def one_line(cell):
    return " ".join(cell.split()).replace("|", "/")[:MOST_IN_A_CELL]


def shown(value, unit):
    return "" if value is None else FORMATS[unit].format(value)


def judged_unit(row):
    return row.compared_unit if row.compared else row.unit


def percent(source, share):
    return source if share == 1 else f"{source} {share:.3%}"
