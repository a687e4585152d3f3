#!/usr/bin/python3
"""Checks the documents:
- every link to a file leads to a file that exists
- README.md is short and links every page of docs; its first figures are in docs/performance.md
- docs/architecture.md has a list of files for each change in WALKS
- pages about failures name metrics, settings and log lines that exist
- docs/deploy.md has a row for every alert

Usage: check_docs.py ROOT         prints each fault; exit status 1 if there is any
       check_docs.py --self-test  plants each fault in FAULTS and checks that it is found
"""

import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MAX_README_LINES = 200
FIRST_SCREEN = 45  # lines
FAILURE_PAGES = ("docs/reliability.md", "docs/redis.md", "docs/outages.md")
ALERTS = "docker/prometheus/alerts.yml"
LOG_COLUMNS = ("log", "the log says")
WALKS = ("an algorithm", "a field of a check", "a setting", "a metric", "a topology of Redis")


def links_of(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" not in link:
            yield link


def broken_links(root):
    for page in [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md")),
                 *sorted((root / "clients").glob("*.md")), *sorted((root / "clients").glob("*/*.md"))]:
        for link in links_of(page):
            if not (page.parent / link).exists():
                yield f"{page.relative_to(root)}: {link} does not exist"


def unlisted_pages(root):
    listed = set(links_of(root / "README.md"))
    for page in sorted((root / "docs").glob("*.md")):
        name = page.relative_to(root).as_posix()
        if name == "docs/README.md":
            yield "docs/README.md: must not exist; README.md is the only index"
        elif name not in listed:
            yield f"README.md: has no link to {name}"


def readme_faults(root):
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    if len(lines) >= MAX_README_LINES:
        yield f"README.md: has {len(lines)} lines; fewer than {MAX_README_LINES} are allowed"
    first_screen = "\n".join(lines[:FIRST_SCREEN])
    for command in ("scripts/run.sh", "scripts/test.sh", "docs/performance.md"):
        if command not in first_screen:
            yield f"README.md: {command} is not in the first {FIRST_SCREEN} lines"
    measured = (root / "docs/performance.md").read_text(encoding="utf-8")
    for figure in re.findall(r"[\d,]+/s|\d+\.\d+ ×", first_screen):
        if figure not in measured:
            yield f"README.md: {figure} is not in docs/performance.md"


def walk_faults(root):
    text = (root / "docs/architecture.md").read_text(encoding="utf-8")
    for walk in WALKS:
        found = re.search(rf"\*\*… {walk}\?\*\*\n(.*?)(?=\n\*\*…|\n## )", text, re.DOTALL)
        if not found or len(LINK.findall(found.group(1))) < 3:
            yield f"docs/architecture.md: '… {walk}?' is missing or links fewer than 3 files"


def cells_of(line):
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def logged(text):
    """The texts quoted in log columns of tables."""
    column = None
    for line in text.splitlines():
        if not line.startswith("|"):
            column = None
        elif column is None:
            header = cells_of(line)
            column = next((header.index(name) for name in LOG_COLUMNS if name in header), -1)
        elif column >= 0:
            yield from re.findall(r"`([^`]+)`", cells_of(line)[column])


def source_of(root):
    """The source text of src. String literals that are split over several lines are joined."""
    files = sorted([*(root / "src").rglob("*.h"), *(root / "src").rglob("*.cc")])
    texts = (path.read_text(encoding="utf-8") for path in files)
    return re.sub(r'"\s*\n\s*"', "", "\n".join(texts))


def failure_faults(root):
    metrics = (root / "docs/operations.md").read_text(encoding="utf-8")
    source = source_of(root)
    for name in FAILURE_PAGES:
        text = (root / name).read_text(encoding="utf-8")
        for metric in re.findall(r"`(sluice_\w+_\w+)", text):
            if f"| `{metric}` |" not in metrics:
                yield f"{name}: {metric} is not in docs/operations.md"
        for setting in re.findall(r"`((?:redis|grpc|http|tls|log|admin)\.[a-z_.]+)`", text):
            if f'"{setting}"' not in source:
                yield f"{name}: there is no setting {setting}"
        for phrase in logged(text):
            if phrase not in source:
                yield f"{name}: no log line says '{phrase}'"


def alert_faults(root):
    """Compares the alerts and their severities with the rows of the table in docs/deploy.md."""
    rules = (root / ALERTS).read_text(encoding="utf-8")
    raised = {name: severity == "page" for name, severity in
              re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", rules, re.DOTALL)}
    rows = re.findall(r"^\| (Sluice\w+)( \(page\))? \|",
                      (root / "docs/deploy.md").read_text(encoding="utf-8"), re.MULTILINE)
    explained = {name: bool(page) for name, page in rows}
    for name in sorted(set(raised) | set(explained)):
        if raised.get(name) != explained.get(name):
            yield f"docs/deploy.md: {name} differs from {ALERTS}"


def check(root):
    return [*broken_links(root), *unlisted_pages(root), *readme_faults(root), *walk_faults(root),
            *failure_faults(root), *alert_faults(root)]


def plant(root):
    """Writes a tree of documents that have no faults."""
    (root / "docs").mkdir()
    (root / "src").mkdir()
    (root / ALERTS).parent.mkdir(parents=True)
    (root / ALERTS).write_text("- alert: SluiceOff\n  labels: {severity: page}\n", encoding="utf-8")
    pages = ("performance", "architecture", "operations", "reliability", "redis", "outages", "deploy")
    links = " ".join(f"[x](docs/{page}.md)" for page in pages)
    (root / "README.md").write_text(f"scripts/run.sh scripts/test.sh 7/s {links}\n",
                                    encoding="utf-8")
    (root / "docs/operations.md").write_text("| `sluice_a_total` | counter |\n", encoding="utf-8")
    (root / "src/a.cc").write_text('Setting{"redis.url"}; warn("it "\n "breaks");', encoding="utf-8")
    for name in FAILURE_PAGES:
        (root / name).write_text(
            "`sluice_a_total` `redis.url`\n| fault | log |\n| --- | --- |\n| x | `it breaks` |\n",
            encoding="utf-8",
        )
    (root / "docs/deploy.md").write_text("| SluiceOff (page) | x |\n", encoding="utf-8")
    (root / "docs/performance.md").write_text("7/s\n", encoding="utf-8")
    walks = [f"**… {walk}?**\n" + "[x](performance.md) " * 3 + "\n" for walk in WALKS]
    (root / "docs/architecture.md").write_text("\n".join(walks) + "\n## End\n", encoding="utf-8")


def append(name, text):
    def fault(root):
        with (root / name).open("a", encoding="utf-8") as file:
            file.write(text)

    return fault


def no_walk(root):
    page = root / "docs/architecture.md"
    page.write_text(page.read_text(encoding="utf-8").replace("a metric", "metrics"), encoding="utf-8")


def late_command(root):
    """Moves a command to the line after the first screen."""
    page = root / "README.md"
    text = page.read_text(encoding="utf-8").replace("scripts/test.sh ", "")
    page.write_text(text + "\n" * (FIRST_SCREEN - 1) + "scripts/test.sh\n", encoding="utf-8")


FAULTS = [
    (lambda root: None, None),
    (append("docs/performance.md", "[z](gone.md)"), "docs/performance.md: gone.md does not exist"),
    (append("docs/new.md", "new"), "README.md: has no link to docs/new.md"),
    (append("docs/README.md", ""), "docs/README.md: must not exist; README.md is the only index"),
    (append("README.md", "\n" * 200), "README.md: has 201 lines; fewer than 200 are allowed"),
    (late_command, "README.md: scripts/test.sh is not in the first 45 lines"),
    (append("README.md", "8/s"), "README.md: 8/s is not in docs/performance.md"),
    (append("docs/redis.md", "`sluice_b_total`"),
     "docs/redis.md: sluice_b_total is not in docs/operations.md"),
    (append("docs/outages.md", "`redis.uri`"), "docs/outages.md: there is no setting redis.uri"),
    (append("docs/reliability.md", "| y | `it mends` |"),
     "docs/reliability.md: no log line says 'it mends'"),
    (append("docs/deploy.md", "| SluiceOn | x |\n"),
     f"docs/deploy.md: SluiceOn differs from {ALERTS}"),
    (append(ALERTS, "- alert: SluiceNew\n  labels: {severity: ticket}\n"),
     f"docs/deploy.md: SluiceNew differs from {ALERTS}"),
    (append("docs/deploy.md", "| SluiceOff | x |\n"),
     f"docs/deploy.md: SluiceOff differs from {ALERTS}"),
    (no_walk, "docs/architecture.md: '… a metric?' is missing or links fewer than 3 files"),
]


def self_test():
    wrong = []
    for fault, expected in FAULTS:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            plant(root)
            fault(root)
            found = check(root)
            if found != ([expected] if expected else []):
                wrong.append(f"expected {expected}, found {found}")
    return wrong


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = self_test() if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1]))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
