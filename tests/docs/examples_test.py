#!/usr/bin/python3
"""Checks that the rules in the documents cause no errors and no warnings.

Usage: examples_test.py SLUICE SOURCE_DIR
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# The minimum number of sets of rules on each page. If fewer are found, some sets are overlooked.
PAGES = {"README.md": 1, "README.zh-CN.md": 1, "docs/adaptive.md": 1, "docs/http.md": 1,
         "docs/leases.md": 1, "docs/migrating.md": 5, "docs/prefetch.md": 1, "docs/recipes.md": 10,
         "docs/rules.md": 7}


def main():
    sluice, source = sys.argv[1], pathlib.Path(sys.argv[2])
    wrong = []
    for page, least in PAGES.items():
        text = (source / page).read_text(encoding="utf-8")
        blocks = [it for it in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
                  if it.startswith("domain:") or "\ndomain:" in it]
        if len(blocks) < least:
            wrong.append(f"{page}: found {len(blocks)} sets of rules; expected at least {least}")
        for block in blocks:
            with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
                file.write(block)
                file.flush()
                result = subprocess.run([sluice, "validate", file.name], capture_output=True,
                                        text=True, check=False)
            if result.returncode != 0 or not result.stdout.startswith("valid:"):
                wrong.append(f"{page}: {result.stdout}{result.stderr}")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
