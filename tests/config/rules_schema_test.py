"""The editors' JSON schema agrees with the server: the schema accepts the examples and the largest
values, and rejects every mistake that a schema can detect.

Usage: rules_schema_test.py SOURCE_DIR
"""
import json
import pathlib
import re
import sys

import jsonschema
import yaml

source = pathlib.Path(sys.argv[1])
schema = json.loads((source / "config/rules.schema.json").read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)

# Mistakes that only the server finds: YAML parsers hide them, or a schema cannot detect them.
BEYOND_A_SCHEMA = {
    "alias", "anchor", "key_twice", "match_attribute_twice", "not_utf8", "quote_swallows_line", "tag",
    "token_bucket_borrow_word",  # some parsers read `yes` as a boolean
    "cidr_host_bits", "cidr_length", "regex_bad",
    "adapt_latency_beyond_ttl", "adapt_min_beyond_limit",
    "counts_of_two_limits", "limit_twice", "per_twice", "rule_name_twice",
    "fixed_window_window_too_long", "token_bucket_warmup_too_long", "max_lease_ttl_long",
    "max_lease_ttl_short",
    "leaky_bucket_rate_too_large", "token_bucket_rate_too_large",
    "token_bucket_rate_too_large_per_second",
}

GOOD_LIMITS = """
{algorithm: fixed_window, limit: 4503599627370496, window: 3650d}
{algorithm: fixed_window, limit: 1, window: month, utc_offset: "-12:00"}
{algorithm: fixed_window, limit: 1, window: 7d, align: epoch}
{algorithm: fixed_window, limit: 1, window: month, align: clock, utc_offset: "+14:00"}
{algorithm: fixed_window, limit: 1, window: 1d, align: clock, utc_offset: "+08:00"}
{algorithm: sliding_log, limit: 10000, window: 250ms}
{algorithm: sliding_window, limit: 4503599627370496, window: 1ms}
{algorithm: sliding_window, limit: 1, window: 1h, segments: 60}
{algorithm: token_bucket, rate: 75059993/s, burst: 2251799813}
{algorithm: token_bucket, rate: 10 per minute, burst: 37529996}
{algorithm: token_bucket, rate: 10 per hour, burst: 625499}
{algorithm: token_bucket, rate: 10/d, burst: 26062, initial: empty, borrow: true}
{algorithm: token_bucket, rate: 10 per second, initial: full, borrow: false}
{algorithm: token_bucket, rate: 10/s, warmup: 1d}
{algorithm: token_bucket, rate: 10/s, warmup: 1ms, borrow: true}
{algorithm: leaky_bucket, rate: 2/s, queue: 2251799812}
{algorithm: leaky_bucket, rate: 2/m, queue: 37529995, delay: false}
{algorithm: leaky_bucket, rate: 2/h, queue: 625498, delay: true}
{algorithm: leaky_bucket, rate: 2/d, queue: 26061}
{algorithm: leaky_bucket, rate: 2/d, queue: 0}
{algorithm: concurrency, limit: 100000, ttl: 30s}
{algorithm: concurrency, limit: 100000, ttl: 30s, adapt: {latency: 1ms}}
{algorithm: concurrency, limit: 9, ttl: 1h, adapt: {min: 9, latency: 1h, share: 95%}}
{algorithm: concurrency, limit: 1, ttl: 30s, name: large-jobs}
{algorithm: token_bucket, rate: 60/m, counts: requests}
{algorithm: sliding_log, limit: 10, window: 1m, counts: [input_tokens, output_tokens]}
{algorithm: fixed_window, limit: 500, window: month, counts: {input_tokens: 1, output_tokens: 1000000000}}
"""

failures = []


def expect(good, text, what):
    try:
        rules = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        rules = None
    errors = [error.message for error in validator.iter_errors(rules)]
    if good and errors:
        failures.append(f"{what}: refused: {errors[0]}")
    if not good and not errors:
        failures.append(f"{what}: accepted")


for path in sorted((source / "config/rules").glob("*.yaml")):
    expect(True, path.read_text(), path)
manual = (source / "docs/rules.md").read_text()
for example in re.findall(r"^```yaml\n(.*?)^```", manual, re.M | re.S):
    expect(True, example, example)
for limit in GOOD_LIMITS.strip().splitlines():
    expect(True, f"domain: d\nrules: [{{name: r, limits: [{limit}]}}]", limit)
for path in sorted((source / "tests/config/bad").glob("*.yaml")):
    expect(path.stem in BEYOND_A_SCHEMA, path.read_text(errors="replace"), path.name)

print("\n".join(failures) or "ok")
sys.exit(bool(failures))
