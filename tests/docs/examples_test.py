#!/usr/bin/python3
"""The rules in docs/migrating.md are rules.

Usage: examples_test.py SLUICE SOURCE_DIR
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def main():
    sluice, source = sys.argv[1], pathlib.Path(sys.argv[2])
    text = (source / "docs/migrating.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    if len(blocks) != 5:
        sys.exit(f"docs/migrating.md: found {len(blocks)} sets of rules; one for each of 5 limiters")
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        for number, block in enumerate(blocks):
            pathlib.Path(folder, f"{number}.yaml").write_text(block, encoding="utf-8")
        sys.exit(subprocess.run([sluice, "validate", folder], check=False).returncode)


if __name__ == "__main__":
    main()
