#!/usr/bin/python3
"""The version of Sluice. CMakeLists.txt defines it; files that cannot read it there repeat it.

Usage: version.py              prints the version, and each place that differs. If any place
                               differs, the exit status is 1
       version.py set VERSION  writes a new version everywhere
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBER = r"(\d+\.\d+\.\d+)"
SOURCE = ("CMakeLists.txt", rf"^project\(sluice VERSION {NUMBER} ")
# (files, the text around the version)
REPEATED = [
    ("docker/Dockerfile", rf"^ARG VERSION={NUMBER}$"),
    ("docker/Dockerfile", rf"-t sluice:{NUMBER} "),
    ("docker/**/*.yaml", rf"\bimage: sluice:{NUMBER}$"),
    ("clients/cpp/CMakeLists.txt", rf"^project\(sluice_client VERSION {NUMBER} "),
    ("clients/python/pyproject.toml", rf'^version = "{NUMBER}"'),
    ("clients/java/pom.xml", rf"^  <version>{NUMBER}</version>"),
    ("clients/java/README.md", rf"^      <version>{NUMBER}</version>"),
    ("clients/*/README.md", rf"sluice[_-]client(?:-go|-java|-cpp)?-{NUMBER}"),
    ("clients/node/package.json", rf'^  "version": "{NUMBER}"'),
    ("clients/node/package-lock.json", rf'^(?:  |      )"version": "{NUMBER}"'),
    ("docs/deploy.md", rf"sluice[_:-]{NUMBER}"),
]


def places():
    """Yields (path, match) for each place that repeats the version."""
    for pattern, expression in REPEATED:
        count = 0
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            if path.name == "package-lock.json":  # below, it has the versions of dependencies
                text = text[: text.find('"node_modules/')]
            for match in re.finditer(expression, text, re.MULTILINE):
                count += 1
                yield path, match
        if count == 0:
            sys.exit(f"version: no text in {pattern} matches {expression}")


def replace(path, spans, version):
    text = path.read_text(encoding="utf-8")
    for begin, end in sorted(spans, reverse=True):
        text = text[:begin] + version + text[end:]
    path.write_text(text, encoding="utf-8")


def main():
    source = ROOT / SOURCE[0]
    defined = re.search(SOURCE[1], source.read_text(encoding="utf-8"), re.MULTILINE)
    if len(sys.argv) == 1:
        print(defined[1])
        wrong = [f"{path.relative_to(ROOT)}: {match[0].strip()}" for path, match in places()
                 if match[1] != defined[1]]
        print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
        return 1 if wrong else 0
    if len(sys.argv) != 3 or sys.argv[1] != "set" or not re.fullmatch(NUMBER, sys.argv[2]):
        print(__doc__, file=sys.stderr)
        return 2
    spans = {source: [defined.span(1)]}
    for path, match in places():
        spans.setdefault(path, []).append(match.span(1))
    for path, found in spans.items():
        replace(path, found, sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
