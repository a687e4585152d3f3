// If rules are written as YAML and read again, they are the same rules.
#include "config/rule_yaml.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "config/rules_loader.h"

namespace sluice {
namespace {

LoadedRules Parse(const std::string& text) {
  const RuleFile file{"rules.yaml", text};
  return ParseRules({.files = {file}});
}

// A file whose only rule is `yaml`.
std::string FileOf(const std::string& yaml) {
  std::istringstream lines(yaml);
  std::string text = "domain: d\nrules:\n";
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    text += (first ? "  - " : "    ") + line + "\n";
  }
  return text;
}

void ExpectReadsBack(Rule rule) {
  const std::string yaml = ToYaml(rule);
  const LoadedRules loaded = Parse(FileOf(yaml));
  ASSERT_TRUE(loaded.ok()) << loaded.errors.front().ToString() << "\n" << yaml;
  rule.location = loaded.rules[0].rules[0].location;
  EXPECT_EQ(loaded.rules[0].rules[0], rule) << yaml;
}

TEST(RuleYaml, WritesValuesThatDifferFromDefaults_InTheOrderOfTheManual) {
  const std::string yaml =
      "name: pay-per-user\n"
      "match: {endpoint: /boot/pay, method: [POST, PUT], client_ip: {not: {cidr: 10.0.0.0/8}}}\n"
      "per: [user, {attribute: client_ip, ipv6_prefix: 64}]\n"
      "limits:\n"
      "  - {algorithm: token_bucket, rate: 10/s, burst: 20}\n"
      "  - {algorithm: token_bucket, rate: 600/m, initial: empty}\n"
      "  - {algorithm: token_bucket, name: spare, rate: 600/m, burst: 3, initial: empty, "
      "borrow: true}\n"
      "  - {algorithm: token_bucket, name: 2, rate: 600/m, burst: 3}\n"
      "  - {algorithm: token_bucket, rate: 600/h, warmup: 90s}\n"
      "  - {algorithm: leaky_bucket, rate: 2/s, queue: 4}\n"
      "  - {algorithm: leaky_bucket, rate: 5/d, queue: 0, delay: false}\n"
      "  - {algorithm: concurrency, limit: 500, ttl: 30s, adapt: {min: 10, latency: "
      "200ms, share: 95%}}\n"
      "  - {algorithm: sliding_log, limit: 5, window: 1m}\n"
      "  - {algorithm: sliding_window, limit: 5, window: 1m}\n"
      "  - {algorithm: sliding_window, limit: 5, window: 1m, segments: 6}\n"
      "  - {algorithm: fixed_window, limit: 1000, window: 1d, align: clock, utc_offset: "
      "\"+08:00\"}\n"
      "  - {algorithm: fixed_window, limit: 7, window: month}\n"
      "  - {algorithm: fixed_window, counts: requests, limit: 7, window: 1s}\n"
      "  - {algorithm: fixed_window, name: n, counts: [in, out], limit: 7, window: 1s}\n"
      "  - {algorithm: fixed_window, counts: {in: 3, true: 1}, limit: 7, window: 1s}\n"
      "overrides:\n"
      "  - match: {plan: [gold, {prefix: vip-}], api_key: {exists: true}}\n"
      "    limits: unlimited\n"
      "  - match: {plan: {regex: '[a-z]+\\d'}}\n"
      "    limits:\n"
      "      - {algorithm: fixed_window, limit: 1, window: 250ms}\n"
      "    counter: own\n"
      "mode: shadow\n"
      "missing: deny\n"
      "on_store_failure: error\n"
      "deny_cache: false\n"
      "max_lease_ttl: 90s\n";
  const LoadedRules loaded = Parse(FileOf(yaml));
  ASSERT_TRUE(loaded.ok()) << loaded.errors.front().ToString();
  EXPECT_EQ(ToYaml(loaded.rules[0].rules[0]), yaml);
  ExpectReadsBack(loaded.rules[0].rules[0]);
}

TEST(RuleYaml, TextsThatYamlCouldMisread_AreReadBackUnchanged) {
  for (const std::string text : {"",
                                 " ",
                                 "null",
                                 "~",
                                 "true",
                                 "42",
                                 "-",
                                 "- a",
                                 "?",
                                 "a: b",
                                 "a:b",
                                 "a #b",
                                 "#",
                                 "it's",
                                 "say \"no\"",
                                 "back\\slash",
                                 "{a}",
                                 "[a]",
                                 "a, b",
                                 "*a",
                                 "&a",
                                 "!a",
                                 "%a",
                                 "@a",
                                 "`a",
                                 "|",
                                 ">",
                                 "tab\there",
                                 "line\nline",
                                 "trailing ",
                                 "漢字",
                                 "=",
                                 "<<",
                                 "...",
                                 "---",
                                 "+1",
                                 "\x7f",
                                 "a\u2028b",
                                 "\u2029",
                                 "a\u0085",
                                 "\u0080\u009f",
                                 "\u00a0 é",
                                 "\ufeff",
                                 "a\ufffe\uffff"}) {
    Rule rule{.name = "r"};
    rule.match = {{"x" + text, {Pattern::Kind::kExact, text, {}}}};
    rule.limits.effect = Limits::Effect::kBlocked;
    ExpectReadsBack(rule);
  }
}

TEST(RuleYaml, ByteOrderMark_IsIgnored) {
  for (const char* const text : {"domain: d\nrules: [{name: a, limits: blocked}]\n",
                                 "---\ndomain: d\nrules: [{name: a, limits: blocked}]\n"}) {
    const LoadedRules loaded =
        ParseRules({.files = {{"a.yaml", std::string("\xef\xbb\xbf") + text}}});
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded.rules.at(0).name, "d");
  }
}

TEST(RuleYaml, ExampleRules_AreReadBackUnchanged) {
  const LoadedRules loaded = ParseRules(ReadRuleFiles(SLUICE_SOURCE_DIR "/config/rules"));
  ASSERT_TRUE(loaded.ok());
  for (const Rule& rule : loaded.rules.at(0).rules) ExpectReadsBack(rule);
}

}  // namespace
}  // namespace sluice
