#!/usr/bin/python3
"""Checks the documents: links lead somewhere, the README is the one index, figures agree.

Usage: check_docs.py ROOT         prints each fault; exit status 1 if there is any
       check_docs.py --self-test  plants a fault of each kind and demands that it is found
"""

import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MAX_README_LINES = 200
FIRST_SCREEN = 45  # lines
WALKS = ("an algorithm", "a field of a check", "a setting", "a metric", "a topology of Redis")


def links_of(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" not in link:
            yield link


def broken_links(root):
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        for link in links_of(page):
            if not (page.parent / link).exists():
                yield f"{page.relative_to(root)}: {link} does not exist"


def unlisted_pages(root):
    listed = set(links_of(root / "README.md"))
    for page in sorted((root / "docs").glob("*.md")):
        name = page.relative_to(root).as_posix()
        if name == "docs/README.md":
            yield "docs/README.md: the README is the one index"
        elif name not in listed:
            yield f"README.md: does not link {name}"


def readme_faults(root):
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    if len(lines) >= MAX_README_LINES:
        yield f"README.md: has {len(lines)} lines; fewer than {MAX_README_LINES} are allowed"
    first_screen = "\n".join(lines[:FIRST_SCREEN])
    for command in ("scripts/run.sh", "scripts/test.sh", "docs/performance.md"):
        if command not in first_screen:
            yield f"README.md: {command} is not on the first screen"
    measured = (root / "docs/performance.md").read_text(encoding="utf-8")
    for figure in re.findall(r"[\d,]+/s|\d+\.\d+ ×", first_screen):
        if figure not in measured:
            yield f"README.md: {figure} is not in docs/performance.md"


def walk_faults(root):
    text = (root / "docs/architecture.md").read_text(encoding="utf-8")
    for walk in WALKS:
        found = re.search(rf"\*\*… {walk}\?\*\*\n(.*?)(?=\n\*\*…|\n## )", text, re.DOTALL)
        if not found or len(LINK.findall(found.group(1))) < 3:
            yield f"docs/architecture.md: no walk for {walk} with its files"


def check(root):
    return [*broken_links(root), *unlisted_pages(root), *readme_faults(root), *walk_faults(root)]


def plant(root):
    """A tree without fault."""
    (root / "docs").mkdir()
    (root / "README.md").write_text(
        "scripts/run.sh scripts/test.sh 7/s [x](docs/performance.md) [y](docs/architecture.md)\n",
        encoding="utf-8",
    )
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


FAULTS = [
    (lambda root: None, None),
    (append("docs/performance.md", "[z](gone.md)"), "docs/performance.md: gone.md does not exist"),
    (append("docs/new.md", "new"), "README.md: does not link docs/new.md"),
    (append("docs/README.md", ""), "docs/README.md: the README is the one index"),
    (append("README.md", "\n" * 200), "README.md: has 201 lines; fewer than 200 are allowed"),
    (append("README.md", "8/s"), "README.md: 8/s is not in docs/performance.md"),
    (no_walk, "docs/architecture.md: no walk for a metric with its files"),
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
