// Measures the cost of matching a request with 10, 1,000 and 100,000 rules: mostly exact ones,
// 1 % prefixes, 1 % networks, 0.1 % regular expressions, but at least one of each.
//
//   build/release/bench/rule_index
//
// "same requests" uses the same seven requests with each set of rules. They match the same seven
// rules, so this shows the cost of rules that do not match. In "all over", successive requests
// match different rules. With many rules, most of that time is cache misses for the matching rule.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "match/rule_index.h"

namespace sluice {
namespace {

constexpr int kShared = 7;  // exact rules that every set has, and that the "same requests" match
constexpr int kRounds = 5;
constexpr int kMatches = 200'000;

Condition On(std::string attribute, Pattern::Kind kind, std::string text) {
  return {std::move(attribute), {kind, std::move(text), {}}};
}

std::string Endpoint(std::size_t i) { return fmt::format("/api/v1/resource-{}", i); }

// Of `size` rules, Hundredth(size) are prefixes, Hundredth(size) are networks, and
// Thousandth(size) are regular expressions.
std::size_t Hundredth(std::size_t size) { return std::max<std::size_t>(1, size / 100); }
std::size_t Thousandth(std::size_t size) { return std::max<std::size_t>(1, size / 1000); }

std::size_t ExactRules(std::size_t size) { return size - 2 * Hundredth(size) - Thousandth(size); }

std::vector<Condition> MatchOf(std::size_t i, std::size_t size) {
  using Kind = Pattern::Kind;
  const std::size_t hundredth = Hundredth(size);
  if (i < hundredth) return {On("endpoint", Kind::kPrefix, fmt::format("/static/{}/", i))};
  if (i < 2 * hundredth) {
    return {On("client_ip", Kind::kCidr, fmt::format("10.{}.{}.0/24", i / 256 % 256, i % 256))};
  }
  if (i < 2 * hundredth + Thousandth(size)) {
    return {On("endpoint", Kind::kRegex, fmt::format("/reports/{}/[0-9]+", i))};
  }
  return {On("endpoint", Kind::kExact, Endpoint(size - 1 - i)), On("method", Kind::kExact, "POST")};
}

std::shared_ptr<const RuleIndex> IndexOf(std::size_t size) {
  Domain domain;
  domain.name = "shop";
  for (std::size_t i = 0; i < size; ++i) {
    Rule rule;
    rule.name = fmt::format("rule-{}", i);
    rule.match = MatchOf(i, size);
    rule.per = {{"user", {}, {}}};
    rule.limits.limits = {TokenBucket{.rate = 10, .period = std::chrono::seconds(1), .burst = 20}};
    domain.rules.push_back(std::move(rule));
  }
  return RuleIndex::Build({std::move(domain)}, {}).value();
}

// Nanoseconds per match, the best of some rounds.
double Measure(const RuleIndex& index, const std::vector<std::string>& endpoints) {
  MatchResult result;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    std::size_t found = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kMatches; ++i) {
      const Attribute attributes[] = {{"endpoint", endpoints[i % endpoints.size()]},
                                      {"method", "POST"},
                                      {"user", "alice"},
                                      {"client_ip", "192.0.2.7"}};
      index.Match("shop", attributes, result);
      found += result.count;
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (found != kMatches) std::abort();  // every request matches one rule
    best = std::min(best, took.count() / kMatches);
  }
  return best;
}

std::vector<std::string> Endpoints(std::size_t count) {
  std::vector<std::string> endpoints;
  for (std::size_t i = 0; i < count; ++i) endpoints.push_back(Endpoint(i));
  std::shuffle(endpoints.begin(), endpoints.end(), std::mt19937(1));
  return endpoints;
}

}  // namespace
}  // namespace sluice

int main() {
  using namespace sluice;
  std::printf("%10s  %14s  %8s  %12s  %8s\n", "rules", "same requests", "ratio", "all over",
              "ratio");
  double same_of_ten = 0;
  double all_of_ten = 0;
  for (const std::size_t size : {10, 1'000, 100'000}) {
    const auto index = IndexOf(size);
    const double same = Measure(*index, Endpoints(kShared));
    const double all = Measure(*index, Endpoints(ExactRules(size)));
    if (size == 10) same_of_ten = same, all_of_ten = all;
    std::printf("%10zu  %11.0f ns  %8.2f  %9.0f ns  %8.2f\n", size, same, same / same_of_ten, all,
                all / all_of_ten);
  }
}
