#!/usr/bin/python3
"""Enforces the layers of docs/architecture.md on the source tree. A folder may include only certain
folders and libraries. Neither units (a header with its .cc) nor folders may include each other in
cycles. Also checks how headers begin, and that only base/clock reads the time.

Usage: check_layers.py SRC          prints each violation, with file and line or the members of the
                                    cycle; exits with status 1 if it finds any
       check_layers.py --self-test  plants each kind of violation in a temporary tree and checks
                                    that it is found
"""

import pathlib
import re
import sys
import tempfile

# A folder may include itself and folders with lower numbers.
ROWS = {
    "base": 0,
    "metrics": 1,
    "core": 2,
    "net": 2,
    "store": 3,
    "match": 3,
    "store/redis": 4,
    "store/memory": 4,
    "config": 4,
    "rpc": 3,
    "rpc/http2": 4,
    "limiter": 5,
    "envoy/rules": 5,
    "envoy/xds": 6,
    "api": 6,
    "service": 7,
    "envoy/rls": 7,
    "admin": 7,
    "http": 7,
    "app": 8,
}
# Programs other than the server may include only these folders. OWNERS determines which programs
# may include the generated API. The tool validates rules as the server does, so it may include the
# server's parser. The load generator parses answers itself and does not include the generated API.
# Replay uses the server's code to apply rules to a log.
SIDE = {
    "client": {"base", "net"},
    "console": {"base", "net", "client", "http", "match"},
    "load": {"base", "net", "client"},
    "replay": {"base", "metrics", "core", "store", "match", "store/memory", "limiter"},
    "tools": {"base", "net", "client", "console", "load", "config", "envoy/rules", "replay"},
}
# The folders that may include a library's headers. A path belongs to the first matching prefix.
OWNERS = {
    "hiredis": {"store/redis"},
    "boost/beast": {"http"},
    "boost/intrusive/": {"net", "rpc/http2"},
    "boost/container/": {"store/redis"},
    "boost/": {"http"},
    "yaml.h": {"config"},
    "xxhash.h": {"base"},
    "nghttp2/": {"rpc/http2", "client"},
    "zlib.h": {"rpc/http2", "replay"},
    "simdjson.h": {"replay"},
    "grpc/health/": {"service", "client"},
    "grpc/reflection/": {"service"},
    "grpc": {"envoy/xds"},
    "envoy/service/ratelimit/": {"envoy/rls"},
    "envoy/service/discovery/": {"envoy/xds"},
    "ratelimit/config/": {"envoy/xds"},
    "google/protobuf/": {"api", "envoy/rls", "envoy/xds", "service", "admin", "http", "load", "client", "console", "tools"},
    "sluice/internal/": {"api"},
    "sluice/v1/": {"api", "service", "admin", "http", "client", "console", "tools"},
    "nlohmann/": {"base", "client", "console", "tools"},
    "prometheus/": {"metrics"},
    "re2/": {"match"},
    "openssl/": {"base", "net"},
    "spdlog/": {"base"},
    "CLI/": {"tools"},
}
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
LOCAL_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
ASKS_THE_TIME = re.compile(
    r"(_clock|\bclock|\bClock)::now\b|\b(gpr_now|gettimeofday|clock_gettime)\s*\(|\bstd::time\s*\("
)
HEADER_START = re.compile(r"\A((//[^\n]*\n)+\s*#pragma once\n|#pragma once\n\s*//)")


def folder_of(path):
    """The folder in ROWS or SIDE to which the file belongs, or None. `path` is relative to src."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    for depth in range(len(parts), 0, -1):
        folder = "/".join(parts[:depth])
        if folder in ROWS or folder in SIDE:
            return folder
    return None


def include_fault(src, folder, included):
    """The reason why a file of `folder` must not include `included`, or None if it may do so."""
    for prefix, owners in OWNERS.items():
        if included.startswith(prefix):
            if folder in owners:
                return None
            return f"<{included}> belongs to {', '.join(sorted(owners)) or 'tests'} alone"
    target = folder_of(included)
    if target is None or target == folder or not (src / target).is_dir():
        return None
    if folder in SIDE:
        allowed = target in SIDE[folder]
    else:
        allowed = target in ROWS and ROWS[target] < ROWS[folder]
    return None if allowed else f'{folder} must not include {target} ("{included}")'


def faults_of_file(src, path):
    relative = path.relative_to(src).as_posix()
    folder = folder_of(relative)
    if folder is None:
        yield 1, "is in no layer; add its folder to the table"
        return
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h" and not HEADER_START.match(text):
        yield 1, "a header must begin with #pragma once and a comment that says what it is"
    for number, line in enumerate(text.splitlines(), start=1):
        include = INCLUDE.match(line)
        if include:
            fault = include_fault(src, folder, include.group(1))
            if fault:
                yield number, fault
        code = line.split("//")[0]
        if ASKS_THE_TIME.search(code) and relative not in ("base/clock.h", "base/clock.cc"):
            yield number, "only base/clock may read the time; use its types and functions"


def unit_of(path):
    return path.rsplit(".", 1)[0]


def parent_of(path):
    return path.rsplit("/", 1)[0]


def cycles(src, node_of):
    """The groups of nodes that include each other in cycles, as sorted lists. `node_of` returns the
    node of a file: its unit or its folder."""
    paths = [path for path in sorted(src.rglob("*")) if path.suffix in (".h", ".cc")]
    names = {path.relative_to(src).as_posix() for path in paths}
    graph = {}
    for path in paths:
        node = node_of(path.relative_to(src).as_posix())
        included = {i for i in LOCAL_INCLUDE.findall(path.read_text(encoding="utf-8")) if i in names}
        graph.setdefault(node, set()).update({node_of(i) for i in included} - {node})

    def reached_from(node):
        seen, waiting = set(), [node]
        while waiting:
            for to in graph[waiting.pop()] - seen:
                seen.add(to)
                waiting.append(to)
        return seen

    reached = {node: reached_from(node) for node in graph}
    groups = {tuple(sorted(m for m in reached[n] if n in reached[m])) for n in graph if n in reached[n]}
    return [list(group) for group in sorted(groups)]


def all_cycles(src):
    return cycles(src, unit_of) + cycles(src, parent_of)


def check(src):
    """All violations under `src`, as lines of text."""
    violations = [f"{src}: {', '.join(group)} include each other" for group in all_cycles(src)]
    for path in sorted(src.rglob("*")):
        if path.suffix in (".h", ".cc"):
            for number, fault in faults_of_file(src, path):
                violations.append(f"{path}:{number}: {fault}")
    return violations


GOOD = "// What it is.\n#pragma once\n"
# (file, text, line of the violation or None)
PLANTED = [
    ("core/good.h", GOOD + '#include "base/clock.h"\n#include <vector>\n', None),
    ("limiter/good.h", "#pragma once\n// What it is.\n" + '#include "store/store.h"\n', None),
    ("store/redis/good.cc", '#include <hiredis/hiredis.h>\n#include "store/store.h"\n', None),
    ("tools/good.cc", '#include "client/client.h"\n#include "sluice/v1/admin.pb.h"\n', None),
    ("tools/rules.cc", '#include "config/rules_loader.h"\n', None),
    ("tools/bench.cc", '#include "load/plan.h"\n', None),
    ("tools/replay.cc", '#include "replay/replay.h"\n', None),
    ("replay/good.cc", '#include "store/memory/memory_store.h"\n#include "limiter/limiter.h"\n', None),
    ("client/good.cc", '#include <nghttp2/nghttp2.h>\n#include "base/address.h"\n', None),
    ("load/good.cc", '#include "client/client.h"\n', None),
    ("base/clock.cc", "auto t = std::chrono::steady_clock::now();\n", None),
    ("core/comment.cc", "// unlike steady_clock::now()\n", None),
    ("core/up.cc", '#include "base/clock.h"\n#include "limiter/limiter.h"\n', 2),
    ("match/beside.cc", '#include "store/store.h"\n', 1),
    ("store/down.cc", '#include "store/redis/script.h"\n', 1),
    ("store/memory/beside.cc", '#include "store/redis/script.h"\n', 1),
    ("client/server.cc", '#include "core/algorithm/limit.h"\n', 1),
    ("tools/server.cc", '#include "match/rule_index.h"\n', 1),
    ("replay/api.cc", '#include "api/status.h"\n', 1),
    ("app/replay.cc", '#include "replay/replay.h"\n', 1),
    ("client/load.cc", '#include "load/plan.h"\n', 1),
    ("load/generated.cc", '#include "sluice/v1/rate_limiter.pb.h"\n', 1),
    ("load/nghttp2.cc", "#include <nghttp2/nghttp2.h>\n", 1),
    ("client/grpc.cc", "#include <grpcpp/grpcpp.h>\n", 1),
    ("client/rules.cc", '#include "config/rules_loader.h"\n', 1),
    ("base/client.cc", '#include "client/client.h"\n', 1),
    ("limiter/hiredis.cc", "\n#include <hiredis/hiredis.h>\n", 2),
    ("app/asio.cc", "#include <boost/asio.hpp>\n", 1),
    ("store/redis/beast.cc", "#include <boost/beast/http.hpp>\n", 1),
    ("match/yaml.cc", "#include <yaml.h>\n", 1),
    ("limiter/grpc.cc", "#include <grpcpp/grpcpp.h>\n", 1),
    ("service/good.cc", "#include <grpc/health/v1/health.pb.h>\n", None),
    ("service/grpc.cc", "#include <grpcpp/grpcpp.h>\n", 1),
    ("service/beside.cc", '#include "admin/explain.h"\n', 1),
    ("limiter/prometheus.cc", "#include <prometheus/counter.h>\n", 1),
    ("config/re2.cc", "#include <re2/re2.h>\n", 1),
    ("match/openssl.cc", "#include <openssl/sha.h>\n", 1),
    ("limiter/cli.cc", "#include <CLI/CLI.hpp>\n", 1),
    ("limiter/now.cc", "int a;\nauto t = std::chrono::system_clock::now();\n", 2),
    ("limiter/now_by_alias.cc", "auto t = SteadyTime::clock::now();\n", 1),
    ("tools/gpr.cc", "auto t = gpr_now(GPR_CLOCK_REALTIME);\n", 1),
    ("core/no_comment.h", "#pragma once\nint a;\n", 1),
    ("core/no_pragma.h", "// What it is.\nint a;\n", 1),
    ("elsewhere/file.cc", "int a;\n", 1),
]


def self_test():
    wrong = []
    for name, text, line in PLANTED:
        with tempfile.TemporaryDirectory() as directory:
            src = pathlib.Path(directory)
            for folder in (*ROWS, *SIDE):
                (src / folder).mkdir(parents=True, exist_ok=True)
            path = src / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            found = check(src)
            expected = [] if line is None else [f"{path}:{line}: "]
            if len(found) != len(expected) or not all(map(str.startswith, found, expected)):
                wrong.append(f"{name}: expected a violation in line {line}, found {found}")
    return wrong + cycle_self_test()


# Each row: a tree as {file: the file that it includes}, and the tree's cycles of units and folders.
PLANTED_CYCLES = [
    ({"core/a.h": "core/b.h", "core/a.cc": "core/c.h", "core/b.h": "", "core/c.h": "core/b.h"}, []),
    ({"core/a.h": "", "core/a.cc": "core/b.h", "core/b.h": "", "core/b.cc": "core/a.h"},
     [["core/a", "core/b"]]),
    ({"core/a.h": "core/b.h", "core/b.h": "core/c.h", "core/c.h": "", "core/c.cc": "core/a.h",
      "core/d.h": "core/a.h"}, [["core/a", "core/b", "core/c"]]),
    ({"core/a.h": "core/algorithm/b.h", "core/algorithm/b.h": "core/c.h", "core/c.h": ""},
     [["core", "core/algorithm"]]),
]


def cycle_self_test():
    wrong = []
    for tree, expected in PLANTED_CYCLES:
        with tempfile.TemporaryDirectory() as directory:
            src = pathlib.Path(directory)
            for name, included in tree.items():
                (src / name).parent.mkdir(parents=True, exist_ok=True)
                text = GOOD + (f'#include "{included}"\n' if included else "")
                (src / name).write_text(text, encoding="utf-8")
            found = all_cycles(src)
            if found != expected:
                wrong.append(f"{tree}: expected the cycles {expected}, found {found}")
            faults = [line for line in check(src) if "include each other" in line]
            if len(faults) != len(expected):
                wrong.append(f"{tree}: reported {faults}")
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
