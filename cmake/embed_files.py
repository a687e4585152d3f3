#!/usr/bin/python3
"""Writes a C++ source that contains the given files and defines PageFiles() (page_file.h).

Usage: embed_files.py OUT NAME=FILE...

The bytes are written as numbers, since compilers limit the length of a string literal.
"""

import array
import pathlib
import sys

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

out, files = sys.argv[1], [argument.split("=", 1) for argument in sys.argv[2:]]
texts, entries = [], []
for number, (name, path) in enumerate(files):
    characters = array.array("b", pathlib.Path(path).read_bytes())
    texts.append(f"constexpr char kText{number}[] = {{{','.join(map(str, characters))}}};\n")
    content_type = TYPES[pathlib.PurePath(name).suffix] + "; charset=utf-8"
    entries.append(f'    {{"/{name}", "{content_type}", {{kText{number}, sizeof kText{number}}}}},\n')
pathlib.Path(out).write_text(
    '#include "console/page_file.h"\n\nnamespace sluice {\nnamespace {\n\n' + "".join(texts) +
    "\nconstexpr PageFile kFiles[] = {\n" + "".join(entries) + "};\n\n}  // namespace\n\n"
    "std::span<const PageFile> PageFiles() { return kFiles; }\n\n}  // namespace sluice\n",
    encoding="ascii")
