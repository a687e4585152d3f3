"""The schema that editors use accepts the example rules and refuses unknown keys.

Exits with 77 (skipped) where python3-jsonschema or python3-yaml is not installed.
"""
import copy
import json
import pathlib
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

source = pathlib.Path(sys.argv[1])
schema = json.loads((source / "config/rules.schema.json").read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)

failures = []
for path in sorted((source / "config/rules").glob("*.yaml")):
    rules = yaml.safe_load(path.read_text())
    failures += [f"{path}: {error.message}" for error in validator.iter_errors(rules)]
    for place in (rules, rules["rules"][0]):
        place["surplus"] = 1
        if validator.is_valid(rules):
            failures.append(f"{path}: an unknown key is accepted")
        del place["surplus"]
    for limits in ("block", [], [{"algorithm": "token_bucket"}], [{"algorithm": "none"}]):
        broken = copy.deepcopy(rules)
        broken["rules"][0]["limits"] = limits
        if validator.is_valid(broken):
            failures.append(f"{path}: limits: {limits} is accepted")

print("\n".join(failures) or "ok")
sys.exit(bool(failures))
