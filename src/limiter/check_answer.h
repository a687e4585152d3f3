// What a door hears back from a check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/limit.h"
#include "match/rule_index.h"

namespace sluice {

// One limit's part in a decision.
struct LimitAnswer {
  const IndexedRule* rule = nullptr;  // lives as long as the rules it is from
  std::uint32_t index = 0;            // in the rule's (or its override's) limits
  Algorithm algorithm = Algorithm::kFixedWindow;
  Source source = Source::kStore;
  // False: decided by `on_store_failure: allow` or `deny`; of `verdict` only `admitted` and
  // `retry_after` hold.
  bool state_known = true;
  Verdict verdict;

  bool denies() const { return !verdict.admitted && !rule->rule.shadow; }
};

struct LeaseAnswer {
  std::string id;  // see lease_name.h
  Duration ttl{};
};

struct CheckAnswer {
  Decision decision = Decision::kAllowed;
  Source source = Source::kNoRule;
  Duration wait{};                      // kAllowed only: start after this long
  std::optional<Duration> retry_after;  // kDenied only; absent: never
  std::optional<LeaseAnswer> lease;     // kAllowed only: a concurrency limit was taken
  Time decided_at;
  std::vector<LimitAnswer> limits;  // enforced rules in file order, then shadow rules

  // As new, memory kept.
  void Clear();

  bool AnyLimitDenies() const;

  // The longest an enforced limit makes the request wait.
  Duration LongestWait() const;

  // The most over the denying limits. Nothing if none denies or one of them never admits.
  std::optional<Duration> LongestRetry() const;
};

}  // namespace sluice
