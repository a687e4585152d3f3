#!/usr/bin/python3
"""Writes files as a C++ source: the table of src/console/page_file.h.

Usage: embed_files.py OUT NAME=FILE...
"""

import pathlib
import sys

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MARK = "embedded"

out, files = sys.argv[1], [argument.split("=", 1) for argument in sys.argv[2:]]
entries = []
for name, path in files:
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if f'){MARK}"' in text:
        sys.exit(f"{path}: contains the mark of the end of the text")
    content_type = TYPES[pathlib.PurePath(name).suffix] + "; charset=utf-8"
    entries.append(f'{{"/{name}", "{content_type}", R"{MARK}({text}){MARK}"}}')
pathlib.Path(out).write_text(
    '#include "console/page_file.h"\n\nnamespace sluice {\nnamespace {\n\n'
    "const PageFile kFiles[] = {\n" + ",\n".join(entries) + ",\n};\n\n}  // namespace\n\n"
    "std::span<const PageFile> PageFiles() { return kFiles; }\n\n}  // namespace sluice\n",
    encoding="utf-8")
