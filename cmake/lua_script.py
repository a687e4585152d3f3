"""Composes the check script from Lua files and writes it, with its SHA-1, as a C++ source.

    lua_script.py OUT SCRIPTS_LUA

The script begins with constants.lua and lone.lua, before all functions. So if lone.lua decides a
call of the script, no function is defined. In lone.lua, the blocks

    --@ for numbers        (or: for arrays, for sets)
    …
    --@ end

are repeated for each algorithm whose state is a fixed number of numbers, an array of numbers, or a
sorted set. In a block, `kind` is the algorithm: kind.id and kind.fields become numbers, kind.layout
becomes the layout of the stored string, and a call such as

    keep, a, b = kind.advance(limit, now, a, b)

becomes the body of that function. Calls of other marked functions in that body are replaced in the
same way. A function whose body is copied must be marked:

    local function advance(limit, now, level, last) -- inlined

The fields of the tables `limit` and `request` become locals: limit_rate, request_lease. So a marked
function must use these tables only by field. It must not return in a loop, and must call other
marked functions only in statements of the form `f(…)`, `names = f(…)` or `return f(…)`.

After lone.lua, the script has prelude.lua, grants.lua, decide.lua, record.lua, the function
algorithm(n), and check.lua. algorithm(n) returns the value of the nth algorithm's file, so a run
executes only the files that it uses.
"""

import hashlib
import pathlib
import re
import sys

OPENS_BLOCK = re.compile(r"(if|for|while|repeat|do)\b")
LOOPS = {"for", "while", "repeat"}


class Function:
    def __init__(self, name, parameters, body):
        self.name = name
        self.parameters = [it.strip() for it in parameters.split(",") if it.strip()]
        self.lines = list(statements(body))


def statements(text):
    """The lines of `text`, without comments. Each is a statement, or begins or ends a block."""
    pending = ""
    for line in text.split("\n"):
        line = re.sub(r"(^|\s+)--(?!@).*$", "", line).strip()
        if not line:
            continue
        if pending and not re.match(r"(\+|-|\*|/|and\b|or\b|\.\.)", line) and is_whole(pending):
            yield pending
            pending = ""
        pending = f"{pending} {line}".strip()
    if pending:
        yield pending


def without_strings(line):
    return re.sub(r"'[^']*'", lambda it: "'" + " " * (len(it[0]) - 2) + "'", line)


def is_whole(line):
    line = without_strings(line)
    opened = sum(line.count(it) for it in "([{") - sum(line.count(it) for it in ")]}")
    return opened == 0 and not re.search(r"(,|=|\band|\bor|\+|\.\.)$", line)


def split_arguments(text):
    """Splits at commas that are not in brackets or strings."""
    parts, depth = [""], 0
    for letter, mark in zip(text, without_strings(text)):
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [it.strip() for it in parts if it.strip()]


class Source:
    """A Lua file, with its constants and its functions that may be inlined."""

    def __init__(self, path):
        self.name = path.stem
        self.text = path.read_text()
        self.constants = re.findall(r"^local [A-Z_, ]+ = .*$", self.text, re.M)
        self.defined = set(re.findall(r"^local function (\w+)", self.text, re.M))
        self.inlined = {
            name: Function(name, parameters, body)
            for name, parameters, body in re.findall(
                r"^local function (\w+)\(([^\n]*)\) -- inlined\n(.*?)^end$", self.text, re.M | re.S
            )
        }
        fields = re.search(r"^\s*(?:return \{ )?fields = (\d)", self.text, re.M)
        self.fields = int(fields[1]) if fields else None
        if self.fields:
            self.shape = "numbers"
        else:
            self.shape = "sets" if "read = read" in self.text else "arrays"


class Inliner:
    """Replaces calls of functions in one block by their bodies."""

    def __init__(self, algorithm, shared):
        self.algorithm = algorithm
        self.functions = shared | algorithm.inlined

    def expand(self, lines, prefix=""):
        """`prefix`: what precedes a function's name in a call, such as `kind.`."""
        for line in lines:
            yield from self.expand_statement(line, prefix)

    def expand_statement(self, line, prefix):
        call = re.fullmatch(rf"(?:(local )?([\w, \[\]]+) = )?{re.escape(prefix)}(\w+)\((.*)\)", line)
        if call and (prefix or call[3] in self.functions):
            declares, targets, name, arguments = call.groups()
            if name not in self.functions:
                sys.exit(f"{self.algorithm.name}.lua: {name} is not marked as inlined")
            if name == "parse":
                yield from self.parse(split_arguments(arguments))
                return
            if declares:
                yield f"local {targets}"
            targets = split_arguments(targets or "")
            yield from self.inline(self.functions[name], split_arguments(arguments), targets)
            return
        for used in re.findall(r"(?<![\w.])(\w+)\(", line):
            if used in self.algorithm.defined and used not in self.functions:
                sys.exit(f"{self.algorithm.name}.lua: {used} is not marked as inlined")
            if used in self.functions:
                sys.exit(f"{self.algorithm.name}.lua: {used} is called in an expression: {line}")
        yield line

    def parse(self, arguments):
        function = self.functions["parse"]
        lines = [
            re.sub(
                r"numbers\[at(?: \+ (\d))?\]", lambda it: arguments[int(it[1] or 0)], line
            )
            for line in function.lines
        ]
        fields = dict(
            re.split(r"\s*=\s*", it, maxsplit=1)
            for it in split_arguments(lines[-1].removeprefix("return {").removesuffix("}"))
        )
        del fields["algorithm"]
        names = ", ".join(f"limit_{it}" for it in fields)
        yield f"local {names}"
        yield "do"
        yield from self.expand(lines[:-1])
        yield f"{names} = {', '.join(fields.values())}"
        yield "end"

    def inline(self, function, arguments, targets):
        lines = [re.sub(r"\b(limit|request)\.(\w+)", r"\1_\2", it) for it in function.lines]
        text = "\n".join(lines)
        bound = []
        for i, name in enumerate(function.parameters):
            argument = arguments[i] if i < len(arguments) else "nil"
            is_same = name == argument and not re.search(rf"(^|, ?){name}\b[\w, ]* = ", text, re.M)
            if name not in ("_", "limit", "request") and not is_same:
                bound.append((name, argument))
        declared = {name for name, _ in bound}
        for names in re.findall(r"\blocal ([\w, ]+)", text):
            declared |= {it.strip() for it in names.split(",")}
        for clash in declared & set(targets):
            renamed = re.compile(rf"(?<![\w.]){clash}\b")
            lines = [renamed.sub(f"its_{clash}", it) for it in lines]
            bound = [(renamed.sub(f"its_{clash}", name), value) for name, value in bound]

        returns = [i for i, it in enumerate(lines) if re.match(r"return\b", it)]
        early = any(i < len(lines) - 1 for i in returns)
        yield "repeat" if early else "do"
        if bound:
            names, values = zip(*bound)
            yield f"local {', '.join(names)} = {', '.join(values)}"
        blocks = []
        for line in lines:
            opens = OPENS_BLOCK.match(line)
            if opens:
                blocks.append(opens[1])
            elif re.match(r"(end|until)\b", line):
                blocks.pop()
            value = re.fullmatch(r"return\b ?(.*)", line)
            if not value:
                yield from self.expand_statement(line, "")
                continue
            if LOOPS & set(blocks):
                sys.exit(f"{self.algorithm.name}.lua: {function.name} returns in a loop")
            if targets:
                yield from self.expand_statement(f"{', '.join(targets)} = {value[1] or 'nil'}", "")
            if early:
                yield "break"
        if targets and not (returns and returns[-1] == len(lines) - 1):
            yield f"{', '.join(targets)} = nil"
        yield "until true" if early else "end"


def expand_blocks(text, algorithms, shared):
    """lone.lua with its blocks repeated for each algorithm."""
    out, block, shape = [], None, None
    for line in text.split("\n"):
        begins = re.fullmatch(r"\s*--@ for (\w+)", line)
        if begins:
            block, shape = [], begins[1]
        elif re.fullmatch(r"\s*--@ end", line):
            for id_, algorithm in enumerate(algorithms, 1):
                if algorithm.shape == shape and "parse" in algorithm.inlined:
                    out += expand_block("\n".join(block), id_, algorithm, shared)
            block = None
        elif block is not None:
            block.append(line)
        else:
            out.append(line)
    return "\n".join(out)


def expand_block(text, id_, algorithm, shared):
    text = text.replace("kind.id", str(id_)).replace("kind.fields", str(algorithm.fields))
    text = text.replace("kind.layout", f"'<BI3{'d' * (algorithm.fields or 0)}'")
    text = text.replace(
        "kind.lifetime_varies", str("lifetime_varies = true" in algorithm.text).lower()
    )
    first, *rest = statements(text)
    return [first, *algorithm.constants, *Inliner(algorithm, shared).expand(rest, "kind.")]


CXX = """\
// Generated from scripts/lua; do not edit.
#include "store/redis/script.h"

// The script is longer than the 64 KiB of text that every compiler must accept.
#pragma GCC diagnostic ignored "-Woverlength-strings"

#include <array>

namespace sluice::redis {{
namespace {{

constexpr std::array kAlgorithms = std::to_array<std::string_view>({{{names}}});

}}  // namespace

const Script kCheckScript{{
    .text = R"lua({text})lua",
    .sha1 = "{sha1}",
    .algorithms = kAlgorithms,
}};

}}  // namespace sluice::redis
"""


def main(out, folder):
    folder = pathlib.Path(folder)
    algorithms = [Source(it) for it in sorted((folder / "algorithm").glob("*.lua"))]
    prelude = Source(folder / "prelude.lua")
    lone = expand_blocks((folder / "lone.lua").read_text(), algorithms, prelude.inlined)
    parts = [(folder / "constants.lua").read_text(), lone, prelude.text]
    parts += [(folder / name).read_text() for name in ("grants.lua", "decide.lua", "record.lua")]
    parts += ["local function algorithm(id)"]
    for id_, it in enumerate(algorithms, 1):
        parts.append(f"{'else' if id_ > 1 else ''}if id == {id_} then\n{it.text}")
    parts += ["end\nend\n", (folder / "check.lua").read_text()]
    text = "\n".join(parts)
    names = ", ".join(f'"{it.name}"' for it in algorithms)
    sha1 = hashlib.sha1(text.encode()).hexdigest()
    pathlib.Path(out).write_text(CXX.format(names=names, text=text, sha1=sha1))


if __name__ == "__main__":
    main(*sys.argv[1:])
