#include "limiter/reset_limit.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/log.h"
#include "base/notification.h"
#include "limiter/explain.h"
#include "limiter/limiter.h"

namespace sluice {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(1);

class CounterReset final : public StoreReset {
 public:
  explicit CounterReset(const std::vector<std::string>& names) {
    keys.assign(names.begin(), names.end());
  }

  std::optional<StoreFailure> RunOn(Store& store, SteadyTime until) {
    deadline = until;
    store.Reset(*this);
    done_.Wait();
    return failure;
  }

 private:
  void OnReset() override { done_.Notify(); }

  Notification done_;
};

Error NoSuchRule(const CheckRequest& request, std::string_view rule,
                 std::span<const RuleMatch> matches) {
  std::vector<std::string_view> names;
  for (const RuleMatch& match : matches) names.emplace_back(match.rule->rule.name);
  return {ErrorCode::kNotFound,
          fmt::format("rule: no \"{}\" in domain \"{}\" matches these attributes; {}{}", rule,
                      request.domain,
                      names.empty() ? "none does" : "those that do: ", fmt::join(names, ", "))};
}

// The keys of `rule`, or of all rules.
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

Result<std::vector<std::string>> ResetLimit(Limiter& limiter, const CheckRequest& request,
                                            std::string_view rule) {
  if (auto valid = request.Validate(); !valid) return valid.error();
  const auto rules = limiter.rules();
  MatchResult matched;
  rules->index->Match(request.domain, request.attributes, matched);
  auto keys = KeysOf(matched.matches(), rule, request);
  if (!keys || keys->empty()) return keys;

  const SteadyTime until = std::min(request.deadline, SteadyNow() + kTimeout);
  // First and whatever becomes of the store: in an outage these are the counters that decide.
  CounterReset(*keys).RunOn(limiter.local_store(), until);
  if (const auto failure = CounterReset(*keys).RunOn(limiter.store(), until)) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the store has not reset the counters: {}; this server's own copies "
                             "are reset, so try again",
                             ToString(*failure))};
  }
  for (const std::string& key : *keys) limiter.ForgetDenial(key);
  spdlog::info("admin: counters reset in domain {}: {}", request.domain, keys->size());
  return keys;
}

}  // namespace sluice
