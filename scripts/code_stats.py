#!/usr/bin/python3
"""Prints statistics of the code (comments, sizes, includes) and fails if any is out of bounds.

Usage: code_stats.py [SRC]        measures a source tree (default: src); exit status 1 if any figure
                                  is out of bounds
       code_stats.py --self-test  plants a fault of each kind and checks that it is found
"""

import pathlib
import re
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# The folder of the test that defines the order of the layers.
LAYERS = pathlib.Path(__file__).resolve().parent.parent / "tests/layers"


def is_comment(line):
    return line.lstrip().startswith("//")


def comment_share(headers):
    """The percentage of non-empty lines in headers that have a comment."""
    lines = [line for text in headers for line in text.splitlines() if line.strip()]
    return 100 * sum("// " in line for line in lines) / max(len(lines), 1)


def function_lengths(text):
    """The number of lines of each function, from its signature to the closing brace.

    The code is formatted by clang-format, so the closing brace is the first one at the signature's
    indentation. A lambda passed as an argument counts toward the enclosing function.
    """
    lengths = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        if not re.search(r"\).*\{$", lines[number]) or is_comment(lines[number]):
            number += 1
            continue
        begin = number
        while begin > 0 and not re.search(r"(^|[;{}:>])$", lines[begin - 1]) and not is_comment(
            lines[begin - 1]
        ):
            begin -= 1
        indent = re.match(" *", lines[begin]).group()
        end = number
        while end + 1 < len(lines) and not lines[end].startswith(indent + "}"):
            end += 1
        lengths.append(end - begin + 1)
        number = end + 1
    return lengths


def percentile_95(values):
    ordered = sorted(values)
    return ordered[max(0, -(-95 * len(ordered) // 100) - 1)] if ordered else 0


def include_cycles(files):
    """The include cycles, each as a list of files."""
    graph = {name: [to for to in INCLUDE.findall(text) if to in files] for name, text in files.items()}
    done, path, cycles = set(), [], []

    def visit(name):
        if name in path:
            cycles.append(path[path.index(name) :] + [name])
            return
        if name in done:
            return
        path.append(name)
        for to in graph[name]:
            visit(to)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)
    return cycles


def upward_includes(src):
    sys.path.insert(0, str(LAYERS))
    import check_layers  # pylint: disable=import-outside-toplevel,import-error

    return [line for line in check_layers.check(src) if "must not include" in line]


# These may have a single user, since only `base` and `net` may include OpenSSL's headers.
BASE_BY_OWNERSHIP = {"base/secret.h"}


def lonely_base_files(src, files):
    """Headers of `base` that only one folder uses, counting folders of tests."""
    users = {}
    trees = [(src, "")] + ([(src.parent / "tests", "tests/")] if src.name == "src" else [])
    for root, prefix in trees:
        for path in root.rglob("*"):
            if path.suffix not in (".h", ".cc"):
                continue
            folder = path.relative_to(root).parts[0]
            for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                users.setdefault(included, set()).add(folder)
    return [
        f"{name}: used by {', '.join(sorted(users.get(name, set()))) or 'nobody'} alone"
        for name in sorted(files)
        if name.startswith("base/") and name.endswith(".h") and name not in BASE_BY_OWNERSHIP
        and len(users.get(name, set())) < 2
        and users.get(name) != {"base"}
    ]


def figures(src):
    """Rows of (name, value as text, bound, whether the bound holds, list of faults)."""
    files = {
        path.relative_to(src).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(src.rglob("*"))
        if path.suffix in (".h", ".cc")
    }
    headers = [text for name, text in files.items() if name.endswith(".h")]
    share = comment_share(headers)
    functions = percentile_95([n for text in files.values() for n in function_lengths(text)])
    lengths = percentile_95([len(text.splitlines()) for text in files.values()])
    code = sum(
        1 for text in files.values() for line in text.splitlines()
        if line.strip() and not is_comment(line)
    )
    cycles = [" -> ".join(cycle) for cycle in include_cycles(files)]
    upward = upward_includes(src)
    lonely = lonely_base_files(src, files)
    return [
        ("lines of code", str(code), "", True, []),
        ("comments in headers", f"{share:.1f} %", "25 to 40 %", 25 <= share <= 40, []),
        ("function, 95th percentile", f"{functions} lines", "<= 25", functions <= 25, []),
        ("file, 95th percentile", f"{lengths} lines", "<= 250", lengths <= 250, []),
        ("include cycles", str(len(cycles)), "0", not cycles, cycles),
        ("upward includes", str(len(upward)), "0", not upward, upward),
        ("base files of one folder", str(len(lonely)), "0", not lonely, lonely),
    ]


def self_test():
    header = "// What it is.\n#pragma once\nint a;  // units\nint b;\nint c;\nint d;\n"
    long = "int F() {\n" + "  ++a;\n" * 30 + "}\n"
    planted = [
        ("comments in headers", {"core/a.h": "#pragma once\n" + "int a;\n" * 9}),
        ("function, 95th percentile", {"core/a.h": header, "core/a.cc": long}),
        ("file, 95th percentile", {"core/a.h": header, "core/a.cc": "int a;\n" * 300}),
        ("include cycles", {"core/a.h": header + '#include "core/b.h"\n',
                            "core/b.h": header + '#include "core/a.h"\n'}),
        ("upward includes", {"core/a.h": header + '#include "limiter/l.h"\n', "limiter/l.h": header}),
        ("base files of one folder", {"base/a.h": header,
                                      "core/c.h": header + '#include "base/a.h"\n'}),
        (None, {"base/a.h": header, "core/a.h": header + '#include "base/a.h"\n',
                "net/n.h": header + '#include "base/a.h"\n'}),
    ]
    wrong = []
    for fault, tree in planted:
        with tempfile.TemporaryDirectory() as directory:
            for name, text in tree.items():
                path = pathlib.Path(directory, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            found = [what for what, _, _, holds, _ in figures(pathlib.Path(directory)) if not holds]
            if found != ([fault] if fault else []):
                wrong.append(f"planted {fault}, found {found}")
    lengths = function_lengths("void F(int a,\n       int b) {\n  ++a;\n}\n\nclass A {\n  int G() {\n  }\n};\n")
    if lengths != [4, 2]:
        wrong.append(f"lengths of functions: {lengths}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    src = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    failed = False
    for what, value, bound, holds, faults in figures(src):
        print(f"  {what:28} {value:12} {bound:12} {'' if holds else 'FAILS'}".rstrip())
        for fault in faults:
            print(f"    {fault}", file=sys.stderr)
        failed |= not holds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
