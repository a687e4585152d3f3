// The rules that match a request. Finds what they decide without counting, and collects a counter
// for each of their limits.
//
// One thread. Keeps its memory between requests. Valid as long as the rule index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "limiter/check_answer.h"
#include "limiter/check_request.h"
#include "match/rule_index.h"
#include "store/store.h"

namespace sluice {

class MatchedLimits {
 public:
  // Replaces the previous request: finds the rules that match `request`, which must outlive the use
  // of this object.
  void Match(const RuleIndex& index, const CheckRequest& request);

  std::span<const RuleMatch> rules() const { return matched_.matches(); }
  bool domain_known() const { return matched_.domain_known; }

  // Adds the attributes that rules need and the request lacks, in file order.
  void AddMissingAttributes(std::vector<MissingAttribute>& to) const;

  // The rule that decides without counting; null if none does.
  const RuleMatch* DecidingRule() const;

  // For every limit that supports the check's mode, adds a counter to `check` and an answer to
  // `limits`: first for enforced rules in file order, then for shadow rules, each of which is a
  // separate group. If no limit takes units, a kConsume or kCharge becomes a kPeek. Fails if a
  // limit counts more than kMaxCost units.
  Result<void> Collect(StoreCheck& check, std::vector<LimitAnswer>& limits);

  // The following are known after Collect.

  // An enforced limit applies.
  bool has_enforced() const { return has_enforced_; }
  // An enforced limit does not support the mode.
  bool skipped() const { return skipped_; }

  // The decision, and its source, if no enforced limit applies.
  Decision DecisionWithoutLimits() const {
    const bool allowed = exempt_ || matched_.unmatched == Unmatched::kAllow;
    return allowed ? Decision::kAllowed : Decision::kDenied;
  }
  Source SourceWithoutLimits() const { return exempt_ ? Source::kRule : Source::kNoRule; }

 private:
  void ReserveKeys();
  void Add(const RuleMatch& match, const IndexedLimit& limit, std::uint16_t group,
           StoreCheck& check, std::vector<LimitAnswer>& limits);

  const CheckRequest* request_ = nullptr;
  MatchResult matched_;
  std::string keys_;  // the memory of the counters' keys
  bool has_enforced_ = false;
  bool exempt_ = false;  // an enforced rule exempts the request, or a limit was skipped
  bool skipped_ = false;
};

}  // namespace sluice
