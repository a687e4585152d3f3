"""Rule files with random damage: if another YAML parser refuses a file, Sluice refuses it, too.

Usage: yaml_mutations_test.py SLUICE SOURCE_DIR [COUNT [SEED]]

The other parser is PyYAML's own parser, not its binding to libyaml. With COUNT 10000, the test takes
about a minute.
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile

import yaml

SLUICE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 500
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1

PARTS = ['"', "'", ":", ": ", "- ", "{", "}", "[", "]", ",", "#", " #", "&a ", "*a", "!x ", "|", ">", "%",
         "@", "`", "?", "? ", "\t", " ", "  ", "\n", "\\", "---\n", "...\n", "<<: ", "~", "0x1f", "é"]

# A file in block style. Its rules have different quotes, so damage to one rule often leaves the
# other rules intact.
BLOCKS = """domain: shop
rules:
""" + "".join(f"""  - name: rule{i}
    per: [user]
    limits:
      - algorithm: fixed_window
        limit: 10
        window: 1h
    match:
      method: {quote}POST{quote}
      endpoint: {quote}/path{i}{quote}
""" for i, quote in enumerate(["", '"', "'", '"', ""]))

# Errors that only PyYAML finds, each with the reason why Sluice accepts the file.
ACCEPTED = {
    "found character '\\t' that cannot start any token":
        "YAML 1.2 (6.1, 6.2) forbids a tab only in indentation, and there libyaml refuses it; "
        "between tokens, a tab is allowed like a space",
}


def damage(text, chance):
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.randrange(len(text))
        kind = chance.randrange(5)
        if kind == 4:  # a quote is lost
            quotes = [i for i, c in enumerate(text) if c in "'\""] or [at]
            at = chance.choice(quotes)
            text = text[:at] + text[at + 1:]
            continue
        if kind == 0:
            text = text[:at] + chance.choice(PARTS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randint(1, 3):]
        elif kind == 2:
            text = text[:at] + chance.choice(PARTS) + text[at + 1:]
        else:
            lines = text.split("\n")
            line = chance.randrange(len(lines))
            if chance.random() < 0.5:
                lines.insert(line, lines[chance.randrange(len(lines))])
            else:
                lines[line] = " " * chance.randint(0, 6) + lines[line].lstrip()
            text = "\n".join(lines)
    return text


def problem(text):
    """PyYAML's error for the text, "a second document", or None."""
    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.YAMLError as error:
        return getattr(error, "problem", None) or str(error)
    return "a second document" if len(documents) > 1 else None


def main():
    sources = sorted(SOURCE.glob("config/rules/*.yaml")) + sorted(SOURCE.glob("tests/fuzz/corpus/rule_file/*"))
    texts = [text for path in sources if len(text := path.read_text("utf-8", "replace")) > 20]
    chance = random.Random(SEED)
    faults, refused = [], 0
    with tempfile.TemporaryDirectory() as folder:
        problems = {}
        for number in range(COUNT):
            text = damage(BLOCKS if number % 2 else chance.choice(texts), chance)
            # Each file has its own domain, so that files do not conflict.
            text = re.sub(r"(?m)^domain:.*$", f"domain: d{number}", text, count=1)
            name = f"{number:06}.yaml"
            pathlib.Path(folder, name).write_text(text, "utf-8")
            problems[name] = problem(text)
        result = subprocess.run([SLUICE, "validate", folder], capture_output=True, text=True, check=False)
        found = set(re.findall(r"(\d{6}\.yaml):", result.stdout + result.stderr))
        for name, what in problems.items():
            refused += what is not None
            if what is None or name in found or what in ACCEPTED:
                continue
            faults.append(f"{name}: PyYAML refuses it ({what}), Sluice does not:\n"
                          + pathlib.Path(folder, name).read_text("utf-8"))
    print(f"{COUNT} files, {refused} refused by PyYAML, {len(found)} by Sluice, {len(faults)} faults")
    if faults or refused < COUNT // 10:
        print("\n".join(faults[:10]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
