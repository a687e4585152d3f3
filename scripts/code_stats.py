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
# CLASS: a class or struct that is not nested in another one. MEMBER: the definition of a member
# outside of its class.
CLASS = re.compile(r"^(?:template <.*> )?(?:class|struct) (?:\[\[\w+\]\] )?(\w+)[^;\n]*$", re.MULTILINE)
MEMBER = re.compile(r"^(?:\S.*[ *&])?(?:[a-z]\w*::)*([A-Z]\w*)(?:<\w+>)?::(?:\w+::)*(?:~?\w+|operator\S+)\(")
# The maximum number of lines of code in `src`. If you add a feature, raise this by the number
# of lines that the feature needs.
# Leases of units need 1,600, Admin.Watch 600, replay 2,200, top and console 1,250,
# limits that follow the load 500, prefetch 736, charges in flight and late grants 37, places of networks 29,
# the order of batches while slots move 26, numbers and UTF-8 in flags 21, memory returned after a load 27,
# shares, owed units and leases after outages 113, converted rules that are exact and tested 110,
# callers, settings, paths and flags 68,
# longer messages 19, copies of the texts of checks 15, the end of chunked bodies 1, bounds on fields 70,
# settling by the stored bucket 84, unreadable counters and the charges of a stopping server 90,
# answers that were not sent 65, warnings and messages for newcomers 145, callers over HTTP identified first 14,
# longer texts of errors and settings 20, keys that are hashed once 31, connections with unread input 22,
# hosts after a comma 4, first causes of errors 6,
# sets of a control plane that wait for rule files 22, leases of shadow rules and headers given twice 19.
MOST_LINES_OF_CODE = 37832
MOST_LINES_OF_A_CLASS = 600
# The maximum numbers of files of `src` in which one setting, or one metric, is named.
MOST_FILES_OF_A_SETTING = 3
MOST_FILES_OF_A_METRIC = 2
# The folder of the test that defines the order of the layers.
LAYERS = pathlib.Path(__file__).resolve().parent.parent / "tests/layers"


def is_comment(line):
    return line.lstrip().startswith("//")


def comment_share(headers):
    """The percentage of comment lines among the non-empty lines of headers."""
    lines = [line for text in headers for line in text.splitlines() if line.strip()]
    return 100 * sum(map(is_comment, lines)) / max(len(lines), 1)


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


def end_of_definition(lines, number):
    """The index of the last line of the definition that begins at line `number`. Its closing brace must
    not be indented.
    """
    while not lines[number].endswith(("{", "}", ";")):
        number += 1
    if lines[number].endswith("{"):
        while not lines[number].startswith("}"):
            number += 1
    return number


def class_lengths(files):
    """The number of lines of each class over all its files. Counts its declaration, the definitions of
    its members, and the lines before each definition (comments, local functions).

    A class is identified by its name and its folder or, if a .cc file declares it, by its name and
    that file. A nested class is part of the outermost class.
    """
    lengths = {}
    for name, text in files.items():
        folder, unit = name.rsplit("/", 1)[0], name.rsplit(".", 1)[0]
        local = set(CLASS.findall(text)) if name.endswith(".cc") else set()
        lines = text.splitlines()
        number = counted = 0
        while number < len(lines):
            declared, member = CLASS.match(lines[number]), MEMBER.match(lines[number])
            if declared or member:
                begin = number if declared else counted
                number = counted = end_of_definition(lines, number) + 1
                found = (declared or member).group(1)
                key = f"{unit if found in local else folder}: {found}"
                lengths[key] = lengths.get(key, 0) + number - begin
            else:
                number += 1
    return lengths


def large_classes(files):
    return [
        f"{name}: {lines} lines"
        for name, lines in sorted(class_lengths(files).items())
        if lines > MOST_LINES_OF_A_CLASS
    ]


def files_of_settings(files):
    """The files that name each setting: members of Settings and EnvoySettings."""
    header = files.get("config/settings.h", "")
    structs = re.findall(r"^struct (?:Envoy)?Settings \{$(.*?)^\};$", header, re.M | re.S)
    members = re.findall(
        r"^  (?!bool operator|EnvoySettings)[\w:<>]+ (\w+)(?: = [^;]*|\{\})?;", "".join(structs), re.M
    )
    users = {}
    for member in members:
        use = re.compile(rf"(?:\b[sS]ettings_?(?:\.|::)|\bto\.)(?:envoy\.)?{member}\b")
        users[member] = {"config/settings.h"} | {name for name, text in files.items() if use.search(text)}
    return users


def files_of_metrics(files):
    """The files that name each metric."""
    users = {}
    for name, text in files.items():
        for metric in re.findall(r'"(sluice_[a-z0-9_]+)"', text):
            users.setdefault(metric, set()).add(name)
    return users


def scattered(users, most):
    return [f"{what}: {', '.join(sorted(names))}" for what, names in sorted(users.items()) if len(names) > most]


def include_faults(src):
    """Cycles of units and of folders, and includes of a higher layer."""
    sys.path.insert(0, str(LAYERS))
    import check_layers as layers  # pylint: disable=import-outside-toplevel,import-error

    cycles = [" <-> ".join(group) for group in layers.all_cycles(src)]
    return cycles, [line for line in layers.check(src) if "must not include" in line]


# These stay in `base` even if only one folder uses them, because only `base` and `net` may include
# OpenSSL's headers.
BASE_BY_OWNERSHIP = {"base/secret.h"}


def lonely_base_files(src, files):
    """Headers of `base` that at most one folder of `src` or `tests` uses; folders with the same name
    count as one. A header that only `base` uses is not listed.
    """
    users = {}
    for root in [src] + ([src.parent / "tests"] if src.name == "src" else []):
        for path in root.rglob("*"):
            if path.suffix not in (".h", ".cc"):
                continue
            folder = path.relative_to(root).parts[0]
            for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                users.setdefault(included, set()).add(folder)
    return [
        f"{name}: folders that use it: {', '.join(sorted(users.get(name, set()))) or 'none'}"
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
    cycles, upward = include_faults(src)
    large = large_classes(files)
    settings = scattered(files_of_settings(files), MOST_FILES_OF_A_SETTING)
    metrics = scattered(files_of_metrics(files), MOST_FILES_OF_A_METRIC)
    lonely = lonely_base_files(src, files)
    return [
        ("lines of code", str(code), f"<= {MOST_LINES_OF_CODE}", code <= MOST_LINES_OF_CODE, []),
        ("comments in headers", f"{share:.1f} %", "20 to 40 %", 20 <= share <= 40, []),
        ("function, 95th percentile", f"{functions} lines", "<= 25", functions <= 25, []),
        ("file, 95th percentile", f"{lengths} lines", "<= 250", lengths <= 250, []),
        ("large classes", str(len(large)), f"0 > {MOST_LINES_OF_A_CLASS}", not large, large),
        ("include cycles", str(len(cycles)), "0", not cycles, cycles),
        ("upward includes", str(len(upward)), "0", not upward, upward),
        ("scattered settings", str(len(settings)), f"0 > {MOST_FILES_OF_A_SETTING}", not settings, settings),
        ("scattered metrics", str(len(metrics)), f"0 > {MOST_FILES_OF_A_METRIC}", not metrics, metrics),
        ("base files of one folder", str(len(lonely)), "0", not lonely, lonely),
    ]


def self_test():
    header = "// What it is.\n#pragma once\n// In units.\nint a;  // it\nint b;\nint c;\nint d;\n"
    long = "int F() {\n" + "  ++a;\n" * 30 + "}\n"
    member = "void A::F{}() {{\n" + "  ++a;\n" * 18 + "}}\n"
    class_a = header + "// Large.\nclass A {\n  void F();\n};\n"
    planted = [
        ("lines of code", {f"core/a{n}.cc": "int a;\n" * 200 for n in range(200)} | {"core/a.h": header}),
        ("large classes", {"core/a.h": class_a}
         | {f"core/a_{n}.cc": "".join(map(member.format, range(10))) for n in range(3)}),
        ("comments in headers", {"core/a.h": "#pragma once\n" + "int a;\n" * 9}),
        ("function, 95th percentile", {"core/a.h": header, "core/a.cc": long}),
        ("file, 95th percentile", {"core/a.h": header, "core/a.cc": "int a;\n" * 300}),
        ("include cycles", {"core/a.h": header + '#include "core/b.h"\n',
                            "core/b.h": header + '#include "core/a.h"\n'}),
        ("upward includes", {"core/a.h": header + '#include "limiter/l.h"\n', "limiter/l.h": header}),
        ("scattered settings", {"config/settings.h": header + "// Those.\nstruct Settings {\n  bool a = false;\n};\n"}
         | {f"config/c{n}.cc": "bool b = settings.a;\n" for n in range(MOST_FILES_OF_A_SETTING)}),
        ("scattered metrics", {"config/a.h": header}
         | {f"config/c{n}.cc": 'auto m = "sluice_m";\n' for n in range(MOST_FILES_OF_A_METRIC + 1)}),
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
    lengths = class_lengths({
        "core/a.h": "// What.\nclass A : public B {\n  class C;\n};\n\nstruct D;\n",
        "core/a.cc": "class E {\n};\n\n// Why.\nint A::F(int a,\n         int b) {\n  ++a;\n}\nint A::G() {}\n",
        "core/b.cc": "class E {\n};\nstd::vector<int> n::A::C::Get() const {\n}\n",
    })
    if lengths != {"core: A": 12, "core/a: E": 2, "core/b: E": 2}:
        wrong.append(f"lengths of classes: {lengths}")
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
