#!/usr/bin/env python3
"""Draws the admissions of each algorithm for the same burst: docs/algorithms.svg.

    build/release/accuracy/accuracy --pattern burst --csv burst.csv
    tests/accuracy/plot.py burst.csv docs/algorithms.svg

If a check waits, its admission is drawn at its start time. Time 0 is an edge of a clock-aligned
window.
"""
import collections
import csv
import sys

# In microseconds, like the times in the CSV. The window and the limit's period have this length.
SECOND = 1_000_000
LIMIT = 100  # a second
BIN = 50_000
SPAN = 5 * SECOND
TOP = 600  # of the vertical axis, checks a second

WIDTH, COLUMNS = 760, 2
PANEL_WIDTH, PANEL_HEIGHT = 320, 110  # of the plotting area
LEFT, ABOVE, PITCH_X, PITCH_Y = 44, 92, 372, 186

STYLE = """
  svg { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; }
  .page { fill: #ffffff; } text { fill: #57606a; } .name { fill: #1f2328; font-weight: 600; }
  .offered { fill: #d5dae0; } .admitted { fill: #0a69da; }
  .axis { stroke: #8c959f; } .grid { stroke: #8c959f; stroke-opacity: .35; }
  .limit { stroke: #bc4c00; stroke-dasharray: 4 3; } .limit-text { fill: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } text { fill: #9198a1; } .name { fill: #f0f6fc; }
    .offered { fill: #343b45; } .admitted { fill: #4493f8; }
    .limit { stroke: #f0883e; } .limit-text { fill: #f0883e; }
  }
"""


class Series:
    """The checks and admissions of an algorithm, with times relative to the first edge."""

    def __init__(self):
        self.asked = []
        self.admitted = []

    def densest(self):
        """The maximum number of units in any interval of one second."""
        units, most, oldest = 0, 0, 0
        for at, cost in sorted(self.admitted):
            units += cost
            while self.admitted[oldest][0] + SECOND <= at:
                units -= self.admitted[oldest][1]
                oldest += 1
            most = max(most, units)
        return most


def read(path):
    series = collections.defaultdict(Series)
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file)
                if row["pattern"] == "burst" and "-" not in row["algorithm"]]  # without variants
    if not rows:
        sys.exit(f"{path}: no checks of the pattern burst")
    start = min(int(row["decided_at"]) for row in rows) // SECOND * SECOND
    for row in rows:
        at, cost = int(row["decided_at"]) - start, int(row["cost"])
        series[row["algorithm"]].asked.append((at, cost))
        if row["admitted"] == "1":
            series[row["algorithm"]].admitted.append((at + int(row["wait"]), cost))
    for one in series.values():
        one.admitted.sort()
    return series


def x_of(time):
    return round(time / SPAN * PANEL_WIDTH, 1)


def y_of(rate):
    return round(PANEL_HEIGHT * (1 - min(rate, TOP) / TOP), 1)


def area(passages, kind):
    """A step line with one step per bin, as high as the rate in the bin."""
    bins = collections.Counter()
    for at, cost in passages:
        bins[at // BIN] += cost
    path = f"M0 {PANEL_HEIGHT}"
    for i in range(SPAN // BIN):
        path += f"V{y_of(bins[i] * SECOND / BIN)}H{x_of((i + 1) * BIN)}"
    return f'<path class="{kind}" d="{path}V{PANEL_HEIGHT}Z"/>'


def text(x, y, what, kind="", anchor="start"):
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{what}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{kind}"/>'


def panel(name, series, x, y):
    parts = [f'<g transform="translate({x} {y})">',
             text(0, -12, name, "name"),
             text(PANEL_WIDTH, -12, f"most in any second: {series.densest()}", anchor="end"),
             area(series.asked, "offered"), area(series.admitted, "admitted")]
    for second in range(SPAN // SECOND + 1):
        at = x_of(second * SECOND)
        if 0 < second:
            parts.append(line(at, 0, at, PANEL_HEIGHT, "grid"))
        parts.append(text(at, PANEL_HEIGHT + 16, f"{second} s", anchor="middle"))
    for rate in range(0, TOP + 1, TOP // 2):
        parts.append(text(-6, y_of(rate) + 4, rate, anchor="end"))
    parts += [line(0, y_of(LIMIT), PANEL_WIDTH, y_of(LIMIT), "limit"),
              line(0, PANEL_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT, "axis"), "</g>"]
    return "\n".join(parts)


def legend():
    return "\n".join([
        text(LEFT, 22, f"The same burst, a limit of {LIMIT} a second each", "name"),
        '<rect class="offered" x="44" y="36" width="12" height="12"/>', text(62, 46, "offered"),
        '<rect class="admitted" x="124" y="36" width="12" height="12"/>', text(142, 46, "admitted"),
        line(212, 42, 232, 42, "limit"), text(238, 46, "limit", "limit-text"),
        text(280, 46, "checks a second; vertical lines are edges of the clock")])


def draw(series):
    rows = -(-len(series) // COLUMNS)
    height = ABOVE + (rows - 1) * PITCH_Y + PANEL_HEIGHT + 36
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
             f'aria-label="Admissions over time of the same burst, a panel per algorithm">',
             f"<style>{STYLE}</style>", '<rect class="page" width="100%" height="100%"/>', legend()]
    for i, (name, one) in enumerate(series.items()):
        parts.append(panel(name, one, LEFT + i % COLUMNS * PITCH_X, ABOVE + i // COLUMNS * PITCH_Y))
    return "\n".join(parts + ["</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(read(sys.argv[1])))


if __name__ == "__main__":
    main()
