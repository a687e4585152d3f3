// The answer to a check, as given to a front end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algorithm/limit.h"
#include "match/rule_index.h"

namespace sluice {

// What one limit, or a rule that denies without counting, contributes to a decision.
struct LimitAnswer {
  const IndexedRule* rule = nullptr;   // owned by its rule index
  std::uint32_t index = 0;             // in the rule's (or its override's) limits
  std::uint32_t counter = 0;           // in the check's counters, if `algorithm` is set
  std::optional<Algorithm> algorithm;  // empty: blocked, or an attribute is missing
  std::int64_t lower_bound = 0;        // of a limit that follows the load; otherwise 0
  std::int64_t units = 0;              // the units that the limit counts in the request
  const Counts* counts = nullptr;      // what the limit counts; owned by rules or request
  Source source = Source::kStore;
  // False if the decision comes from a rule that does not count, or from `on_store_failure` without
  // a state of the counter. Then only `admitted` and `retry_after` of `verdict` are valid.
  bool state_known = true;
  Verdict verdict;

  bool denies() const { return !verdict.admitted && !rule->rule.shadow; }
};

struct LeaseAnswer {
  std::string id;  // see lease_name.h
  Duration ttl{};
};

// The reason why a rule does not count the request: an attribute of the rule's `per` is absent, or
// must be an IP address but is not.
struct MissingAttribute {
  const IndexedRule* rule = nullptr;  // owned by its rule index
  std::string_view attribute;         // of the rule
};

struct CheckAnswer {
  Decision decision = Decision::kAllowed;
  Source source = Source::kNoRule;
  Duration wait{};                      // kAllowed only: wait this long before starting
  std::optional<Duration> retry_after;  // kDenied only; absent: never
  std::optional<LeaseAnswer> lease;     // kAllowed only: if slots or units are leased
  Time decided_at;
  bool unknown_domain = false;      // no rules are loaded for the domain
  std::vector<LimitAnswer> limits;  // enforced rules in file order, then shadow rules
  std::vector<MissingAttribute> missing_attributes;  // in file order
  // The request's amounts that no rule of the domain counts; views of the request.
  std::vector<std::string_view> uncounted_amounts;

  // Clears all fields and keeps the memory.
  void Clear() {
    limits.clear();
    missing_attributes.clear();
    uncounted_amounts.clear();
    *this = CheckAnswer{.limits = std::move(limits),
                        .missing_attributes = std::move(missing_attributes),
                        .uncounted_amounts = std::move(uncounted_amounts)};
  }

  bool AnyLimitDenies() const { return std::ranges::any_of(limits, &LimitAnswer::denies); }

  // The longest wait that an enforced limit requires.
  Duration LongestWait() const {
    Duration longest{};
    for (const LimitAnswer& limit : limits) {
      if (!limit.rule->rule.shadow) longest = std::max(longest, limit.verdict.wait);
    }
    return longest;
  }

  // The longest retry_after of the denying limits. Empty if no limit denies, or if a denying limit
  // will never admit the request.
  std::optional<Duration> LongestRetry() const {
    std::optional<Duration> longest;
    for (const LimitAnswer& limit : limits) {
      if (!limit.denies()) continue;
      if (limit.verdict.retry_after == Verdict::kNever) return std::nullopt;
      longest = std::max(longest.value_or(Duration::zero()), limit.verdict.retry_after);
    }
    return longest;
  }
};

}  // namespace sluice
