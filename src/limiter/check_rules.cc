// Matches the rules and decides what needs no counter.
#include "limiter/check_call.h"
#include "limiter/rules_in_force.h"

namespace sluice {

// The request has limits of its own.
void CheckCall::ReplaceLimits() {
  for (std::size_t i = 0; i < matched_.count; ++i) {
    RuleMatch& match = matched_.rules[i];
    if (match.outcome == RuleMatch::Outcome::kCount) match.limits = request.limits;
  }
}

void CheckCall::NoteMissingAttributes() {
  using Outcome = RuleMatch::Outcome;
  for (const RuleMatch& match : matched_.matches()) {
    if (match.outcome != Outcome::kMissing && match.outcome != Outcome::kSkipped) continue;
    for (const KeyPart* part : MissingParts(match.rule->rule, request.attributes)) {
      answer().missing_attributes.push_back({match.rule, part->attribute});
    }
  }
}

// Rules that decide without counting: blocked wins over unlimited, and both win over a missing
// attribute of a rule. Shadow rules are ignored.
bool CheckCall::DecideByRules() {
  using Outcome = RuleMatch::Outcome;
  for (const Outcome outcome : {Outcome::kBlocked, Outcome::kUnlimited, Outcome::kMissing}) {
    for (const RuleMatch& match : matched_.matches()) {
      if (match.outcome != outcome || match.rule->rule.shadow) continue;
      const bool allowed = outcome == Outcome::kUnlimited;
      const Decision decision = allowed ? Decision::kAllowed : Decision::kDenied;
      rules_->CountCheck(*match.rule, decision, Source::kRule);
      if (!allowed) {
        answer().limits.push_back({.rule = match.rule,
                                   .source = Source::kRule,
                                   .state_known = false,
                                   .verdict = {.admitted = false, .retry_after = Verdict::kNever}});
      }
      Answer(decision, Source::kRule);
      return true;
    }
  }
  return false;
}

// Creates one counter for every limit: enforced rules in file order, then shadow rules, each rule
// as a separate group.
void CheckCall::CollectCounters() {
  std::size_t key_bytes = 0;
  for (const RuleMatch& match : matched_.matches()) {
    for (const IndexedLimit& limit : match.limits) {
      key_bytes += match.key_prefix.size() + limit.tag.size();
    }
  }
  keys_.reserve(key_bytes);  // so that views into it stay valid
  std::uint16_t group = 0;
  for (const bool shadow : {false, true}) {
    for (const RuleMatch& match : matched_.matches()) {
      if (match.outcome != RuleMatch::Outcome::kCount) continue;
      if (match.rule->rule.shadow != shadow) continue;
      if (shadow) ++group;
      exempt_ |= !shadow && match.limits.empty();
      for (const IndexedLimit& limit : match.limits) AddCounter(match, limit, group);
    }
  }
}

void CheckCall::AddCounter(const RuleMatch& match, const IndexedLimit& limit, std::uint16_t group) {
  if (!Supports(limit.limit, check_.demand.mode)) {
    const bool enforced = group == 0;
    skipped_ |= enforced;
    exempt_ |= enforced;
    return;
  }
  const std::size_t begin = keys_.size();
  keys_.append(match.key_prefix).append(limit.tag);
  check_.counters.push_back({.key = std::string_view(keys_).substr(begin),
                             .limit = &limit.limit,
                             .group = group,
                             .verdict = {}});
  answer().limits.push_back({.rule = match.rule,
                             .index = static_cast<std::uint32_t>(&limit - match.limits.data()),
                             .algorithm = AlgorithmOf(limit.limit),
                             .verdict = {}});
  has_enforced_ |= group == 0;
}

Decision CheckCall::DecisionWithoutLimits() const {
  const bool allowed = exempt_ || matched_.unmatched == Unmatched::kAllow;
  return allowed ? Decision::kAllowed : Decision::kDenied;
}

}  // namespace sluice
