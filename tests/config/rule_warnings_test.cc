// Rules that are valid but probably contain a mistake.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "config/rules_loader.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The warnings about a rule file with one rule. The file's name is omitted.
std::vector<std::string> WarningsOf(const std::string& rule) {
  const RuleFile file{"shop.yaml", "domain: shop\nrules:\n  - name: r\n" + rule};
  const LoadedRules loaded = ParseRules({.files = {file}});
  for (const Diagnostic& error : loaded.errors) ADD_FAILURE() << error.ToString();
  std::vector<std::string> warnings;
  for (const Diagnostic& warning : loaded.warnings) {
    EXPECT_GT(warning.position.line, 3) << warning.ToString();
    warnings.push_back(warning.path + ": " + warning.message);
  }
  return warnings;
}

std::vector<std::string> WarningsOfLimits(const std::string& limits) {
  return WarningsOf("    limits: [" + limits + "]\n");
}

std::vector<std::string> WarningsOfMatch(const std::string& match) {
  return WarningsOf("    match: {" + match + "}\n    limits: blocked\n");
}

TEST(RuleWarnings, StarInAnExactText_WarningNamesThePattern) {
  EXPECT_THAT(WarningsOfMatch("path: /api/*"),
              ElementsAre("rules[0].match.path: \"/api/*\" is compared literally, including "
                          "the *; for a pattern, write {prefix: /api/}"));
  EXPECT_THAT(WarningsOfMatch("path: [/a, '*']"),
              ElementsAre("rules[0].match.path[1]: \"*\" is compared literally, including the *; "
                          "for a pattern, write {exists: true}"));
  EXPECT_THAT(WarningsOfMatch("path: {not: /*/pay}"),
              ElementsAre("rules[0].match.path.not: \"/*/pay\" is compared literally, including "
                          "the *; for a pattern, write {regex: …}"));
  EXPECT_THAT(WarningsOfMatch("path: {regex: '/api/.*'}, host: {prefix: '*'}"), IsEmpty());
}

TEST(RuleWarnings, NetworkInAnExactText_WarningNamesCidr) {
  EXPECT_THAT(WarningsOfMatch("client_ip: 203.0.113.0/24"),
              ElementsAre("rules[0].match.client_ip: \"203.0.113.0/24\" is compared literally; for "
                          "a network, write {cidr: 203.0.113.0/24}"));
  EXPECT_THAT(WarningsOfMatch("client_ip: {not: ['2001:db8::/32']}"),
              ElementsAre("rules[0].match.client_ip.not[0]: \"2001:db8::/32\" is compared "
                          "literally; for a network, write {cidr: 2001:db8::/32}"));
  EXPECT_THAT(WarningsOfMatch("client_ip: [10.0.0.0, {cidr: 10.0.0.0/8}], path: /8"), IsEmpty());
}

TEST(RuleWarnings, AttributeThatARequestMayLack_CausesAWarning) {
  const std::string limits = "    limits: [{algorithm: concurrency, limit: 1, ttl: 1s}]\n";
  const auto warnings = [&](const std::string& keys) { return WarningsOf(keys + limits); };
  const std::string about_user =
      "rules[0].per[0]: this rule does not limit requests without \"user\"; if that is intended, "
      "write missing: skip, or user: {exists: true} in match; otherwise write missing: deny";
  EXPECT_THAT(warnings("    per: [user]\n"), ElementsAre(about_user));
  EXPECT_THAT(warnings("    match: {path: /}\n    per: [user]\n"), ElementsAre(about_user));
  EXPECT_THAT(warnings("    match: {user: {not: root}}\n    per: [user]\n"),
              ElementsAre(about_user));
  EXPECT_THAT(warnings("    match: {user: [a, {not: b}]}\n    per: [user]\n"),
              ElementsAre(about_user));
  EXPECT_THAT(warnings("    match: {user: {exists: true}}\n    per: [user]\n"), IsEmpty());
  EXPECT_THAT(warnings("    match: {user: [a, {prefix: b}]}\n    per: [user]\n"), IsEmpty());
  EXPECT_THAT(warnings("    per: [user]\n    missing: skip\n"), IsEmpty());
  EXPECT_THAT(warnings("    per: [user]\n    missing: deny\n"), IsEmpty());
}

TEST(RuleWarnings, CountedNamesSimilarToCostOrRequests_CauseWarnings) {
  const auto warnings = [](const std::string& counts) {
    return WarningsOfLimits("{algorithm: fixed_window, limit: 99, window: 1m, counts: " + counts +
                            "}");
  };
  const auto about = [](const std::string& where, const std::string& name, const std::string& own) {
    return "rules[0].limits[0].counts" + where + ": \"" + name +
           "\" is an amount that callers must give; did you mean \"" + own + "\"?";
  };
  EXPECT_THAT(warnings("request"), ElementsAre(about("", "request", "requests")));
  EXPECT_THAT(warnings("[bytes, costs]"), ElementsAre(about("[1]", "costs", "cost")));
  EXPECT_THAT(warnings("{reqests: 2}"), ElementsAre(about(".reqests", "reqests", "requests")));
  EXPECT_THAT(warnings("{cost: 2, requests: 1, tokens: 1, posts: 1, cents: 3}"), IsEmpty());
}

TEST(RuleWarnings, WeightThatTheLimitNeverAdmits_CausesAWarning) {
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 10/s, burst: 3000, counts: {in: "
                               "3000, out: 3001}}"),
              ElementsAre("rules[0].limits[0]: never admits a request with \"out\": an amount "
                          "of 1 takes 3001 units, and the limit admits at most 3000 at once"));
}

TEST(RuleWarnings, LimitsThatCountDifferently_AreNotCompared) {
  const std::string minute = "{algorithm: sliding_log, limit: 10, window: 1m, counts: ";
  const std::string second = "{algorithm: sliding_log, limit: 10, window: 1s, counts: ";
  EXPECT_THAT(WarningsOfLimits(minute + "in}, " + second + "out}"), IsEmpty());
  EXPECT_THAT(WarningsOfLimits(minute + "in}, " + second + "{in: 2}}"), IsEmpty());
  EXPECT_THAT(WarningsOfLimits(minute + "in}, " + second + "in}"),
              ElementsAre("rules[0].limits[1]: never decides: limits[0] denies every request "
                          "that this limit would deny"));
}

TEST(RuleWarnings, LimitWithoutEffectBesideAnother_CausesAWarning) {
  const auto never = [](int which, int other) {
    return "rules[0].limits[" + std::to_string(which) + "]: never decides: limits[" +
           std::to_string(other) + "] denies every request that this limit would deny";
  };
  EXPECT_THAT(WarningsOfLimits("{algorithm: sliding_log, limit: 10, window: 1m}, "
                               "{algorithm: sliding_log, limit: 10, window: 1s}"),
              ElementsAre(never(1, 0)));
  EXPECT_THAT(WarningsOfLimits("{algorithm: sliding_log, limit: 10, window: 1m}, "
                               "{algorithm: sliding_log, limit: 9, window: 1s}"),
              IsEmpty());
  EXPECT_THAT(WarningsOfLimits("{algorithm: sliding_window, limit: 10, window: 11s}, "
                               "{algorithm: sliding_window, limit: 10, window: 10s}"),
              ElementsAre(never(1, 0)));
  EXPECT_THAT(WarningsOfLimits("{algorithm: sliding_window, limit: 10, window: 1m, name: a}, "
                               "{algorithm: sliding_window, limit: 11, window: 1m, name: b}"),
              ElementsAre(never(1, 0)));
  EXPECT_THAT(WarningsOfLimits("{algorithm: fixed_window, limit: 20, window: 1m, name: a}, "
                               "{algorithm: fixed_window, limit: 10, window: 1m, name: b}"),
              ElementsAre(never(0, 1)));
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 60/m, burst: 10}, "
                               "{algorithm: token_bucket, rate: 1/s, burst: 60}"),
              ElementsAre(never(1, 0)));
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 60/m, burst: 11}, "
                               "{algorithm: token_bucket, rate: 2/s, burst: 10}"),
              IsEmpty());
  EXPECT_THAT(WarningsOfLimits("{algorithm: leaky_bucket, rate: 1/s, queue: 99}, "
                               "{algorithm: leaky_bucket, rate: 100/m, queue: 99}"),
              ElementsAre(never(1, 0)));
  EXPECT_THAT(
      WarningsOf("    limits: blocked\n    overrides:\n      - match: {a: b}\n"
                 "        limits: [{algorithm: sliding_log, limit: 1, window: 1m}, "
                 "{algorithm: sliding_log, limit: 2, window: 1s}]\n"),
      ElementsAre("rules[0].overrides[0].limits[1]: never decides: limits[0] denies every request "
                  "that this limit would deny"));
}

TEST(RuleWarnings, LimitThatDecidesAfterALargeCharge_CausesNone) {
  const auto warnings = [](const std::string& algorithm, const std::string& first,
                           const std::string& second) {
    return WarningsOfLimits("{algorithm: " + algorithm + ", name: a, " + first +
                            "}, {algorithm: " + algorithm + ", name: b, " + second + "}");
  };
  EXPECT_THAT(warnings("token_bucket", "rate: 60/m, burst: 10", "rate: 60/m, burst: 1000"),
              IsEmpty())
      << "after 611 seconds, only the second one is still in debt";
  EXPECT_THAT(warnings("token_bucket", "rate: 60/m, burst: 10", "rate: 2/s, burst: 10"), IsEmpty());
  EXPECT_THAT(warnings("leaky_bucket", "rate: 1/s, queue: 5, delay: false",
                       "rate: 1/s, queue: 500, delay: false"),
              IsEmpty());
  EXPECT_THAT(warnings("leaky_bucket", "rate: 1/s, queue: 5", "rate: 1/s, queue: 6"), IsEmpty())
      << "a check with a max_wait of 0 needs an empty queue";
  EXPECT_THAT(
      warnings("fixed_window", "limit: 10, window: 1d, align: clock", "limit: 20, window: 1h"),
      IsEmpty())
      << "after midnight, only the window of the second one still has the charge";
  EXPECT_THAT(warnings("fixed_window", "limit: 10, window: 1h, align: clock",
                       "limit: 20, window: 1h, align: clock, utc_offset: \"+05:30\""),
              IsEmpty());
  EXPECT_THAT(warnings("sliding_window", "limit: 10, window: 10s, segments: 60",
                       "limit: 20, window: 10s, segments: 1"),
              IsEmpty())
      << "in the second one, the charge may count for 20 s";
}

TEST(RuleWarnings, OverridesWithTheSameMatch_CauseAWarning) {
  const auto warnings = [](const std::string& second) {
    return WarningsOf(
        "    limits: blocked\n    overrides:\n"
        "      - {match: {plan: gold, ip: [a, b]}, limits: unlimited}\n"
        "      - {match: {" +
        second + "}, limits: blocked}\n");
  };
  const std::string never = "rules[0].overrides[1]: never applies: overrides[0] has the same match";
  EXPECT_THAT(warnings("plan: gold, ip: [a, b]"), ElementsAre(never));
  EXPECT_THAT(warnings("ip: [b, a], plan: gold"), ElementsAre(never));
  EXPECT_THAT(warnings("plan: gold"), IsEmpty());
}

TEST(RuleWarnings, PrefetchWithoutEffect_CausesAWarning) {
  const std::string start = "rules[0].limits[0]: prefetch has no effect: ";
  EXPECT_THAT(
      WarningsOfLimits("{algorithm: token_bucket, rate: 9/s, burst: 31, prefetch: 1s}"),
      ElementsAre(start + "the limit admits less than 32 at once, so Redis grants nothing"));
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 9/s, burst: 32, prefetch: 1s}"),
              IsEmpty());
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 99/s, burst: 99, prefetch: 1s}, "
                               "{algorithm: sliding_log, limit: 1000, window: 1m}"),
              ElementsAre(start + "limits[1] has no prefetch, so Redis decides each check"));
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 99/s, burst: 99, prefetch: 1s}, "
                               "{algorithm: fixed_window, limit: 1000, window: 1m, prefetch: 1s}"),
              IsEmpty());
}

TEST(RuleWarnings, BurstBelowTheRefillOfTenMilliseconds_CausesAWarning) {
  EXPECT_THAT(
      WarningsOfLimits("{algorithm: token_bucket, rate: 1000/s, burst: 9}"),
      ElementsAre("rules[0].limits[0]: a burst of 9 is less than the tokens that this rate adds in "
                  "10 ms (10), so requests that arrive together may be denied although they are "
                  "within the rate"));
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 1000/s, burst: 10}"), IsEmpty());
  EXPECT_THAT(WarningsOfLimits("{algorithm: token_bucket, rate: 1000/s, burst: 9, borrow: true}"),
              IsEmpty());
}

}  // namespace
}  // namespace sluice
