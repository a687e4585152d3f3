#include "admin/reset_limit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "admin/explain.h"
#include "base/log.h"
#include "envoy/rules/guide.h"
#include "limiter/limiter.h"

namespace sluice {
namespace {

// The time limit for the reset in each of the two stores.
constexpr Duration kTimeout = std::chrono::seconds(1);

Error NoSuchRule(const CheckRequest& request, std::string_view rule,
                 std::span<const RuleMatch> matches) {
  std::vector<std::string_view> names;
  for (const RuleMatch& match : matches) names.emplace_back(match.rule->rule.name);
  return {
      ErrorCode::kNotFound,
      fmt::format(
          "rule: no rule \"{}\" of domain \"{}\" matches these attributes; matching rules: {}",
          rule, request.domain, names.empty() ? "none" : fmt::to_string(fmt::join(names, ", ")))};
}

// The keys of `rule`, or of all matching rules if `rule` is empty.
Result<std::vector<std::string>> KeysOf(std::span<const RuleMatch> matches, std::string_view rule,
                                        const CheckRequest& request) {
  std::vector<std::string> keys;
  bool found = rule.empty();
  for (const RuleMatch& match : matches) {
    if (!rule.empty() && match.rule->rule.name != rule) continue;
    found = true;
    const std::string missing = MissingAttributes(match.rule->rule, request.attributes);
    if (!rule.empty() && !missing.empty()) {
      return Error{ErrorCode::kNotFound, fmt::format("rule \"{}\": {}", rule, missing)};
    }
    for (const IndexedLimit& limit : match.limits) keys.push_back(match.key_prefix + limit.tag);
  }
  if (!found) return NoSuchRule(request, rule, matches);
  return keys;
}

}  // namespace

void ResetCall::Start(CheckRequest request, std::string_view rule) {
  if (auto valid = request.Validate(); !valid) return OnReset(valid.error());
  const auto rules = limiter_.rules();
  MatchResult matched;
  std::string counter;
  envoy::CompleteDescriptor(*rules->index, request.domain, request.attributes, counter);
  rules->index->Match(request.domain, request.attributes, matched);
  auto keys = KeysOf(matched.matches(), rule, request);
  if (!keys || keys->empty()) return OnReset(std::move(keys));
  keys_ = std::move(keys).value();
  domain_ = request.domain;
  deadline_ = request.deadline;
  // This server's own counters decide in an outage. So they are reset first: the reset in the store
  // may fail.
  ForgetHere();
  ResetIn(limiter_.local_store(), local_);
}

// Drops what this server remembers of the counters, and the grants that it holds for them.
void ResetCall::ForgetHere() {
  for (const std::string& key : keys_) {
    limiter_.fallback().Forget(key);
    limiter_.grants().Forget(key);
  }
}

void ResetCall::ResetIn(Store& store, Reset& reset) {
  reset.keys.assign(keys_.begin(), keys_.end());
  reset.failure.reset();
  reset.deadline = std::min(deadline_, SteadyNow() + kTimeout);
  store.Reset(reset);
}

void ResetCall::OnStoreReset(const Reset& reset) {
  if (&reset == &local_) return ResetIn(limiter_.store(), shared_);
  if (shared_.failure) {
    return OnReset(
        Error{ErrorCode::kUnavailable,
              fmt::format("the store has not reset the counters: {}; this server has reset its own "
                          "copies; try again",
                          ToString(*shared_.failure))});
  }
  ForgetHere();
  spdlog::info("admin: counters reset in domain {}: {}", domain_, keys_.size());
  OnReset(std::move(keys_));
}

}  // namespace sluice
