#include "limiter/matched_limits.h"

#include <fmt/format.h>

namespace sluice {
namespace {

// Stands for the units of a limit that would count more than kMaxCost.
constexpr std::int64_t kTooMany = -1;

Error CountsTooMany(const LimitAnswer& limit) {
  return InvalidArgument(fmt::format(
      "amounts: limits[{}] of rule \"{}\" counts more than 2^53 ({}) units in this request",
      limit.index, limit.rule->rule.name, kMaxCost));
}

}  // namespace

using Outcome = RuleMatch::Outcome;

void MatchedLimits::Match(const RuleIndex& index, const CheckRequest& request) {
  request_ = &request;
  has_enforced_ = exempt_ = skipped_ = false;
  index.Match(request.domain, request.attributes, matched_);
  if (request.limits.empty()) return;
  for (std::size_t i = 0; i < matched_.count; ++i) {
    RuleMatch& match = matched_.rules[i];
    if (match.outcome == Outcome::kCount) match.limits = request.limits;
  }
}

void MatchedLimits::AddMissingAttributes(std::vector<MissingAttribute>& to) const {
  for (const RuleMatch& match : rules()) {
    if (match.outcome != Outcome::kMissing && match.outcome != Outcome::kSkipped) continue;
    for (const KeyPart* part : MissingParts(match.rule->rule, request_->attributes)) {
      to.push_back({match.rule, part->attribute});
    }
  }
}

// Blocked wins over unlimited, and both win over a missing attribute of a rule. Shadow rules are
// ignored.
const RuleMatch* MatchedLimits::DecidingRule() const {
  for (const Outcome outcome : {Outcome::kBlocked, Outcome::kUnlimited, Outcome::kMissing}) {
    for (const RuleMatch& match : rules()) {
      if (match.outcome == outcome && !match.rule->rule.shadow) return &match;
    }
  }
  return nullptr;
}

Result<void> MatchedLimits::Collect(StoreCheck& check, std::vector<LimitAnswer>& limits) {
  ReserveKeys();
  std::uint16_t group = 0;
  for (const bool shadow : {false, true}) {
    for (const RuleMatch& match : rules()) {
      if (match.outcome != Outcome::kCount || match.rule->rule.shadow != shadow) continue;
      if (shadow) ++group;
      exempt_ |= !shadow && match.limits.empty();
      for (const IndexedLimit& limit : match.limits) Add(match, limit, group, check, limits);
    }
  }
  bool takes_nothing = true;
  for (const LimitAnswer& limit : limits) {
    if (limit.units == kTooMany) return CountsTooMany(limit);
    takes_nothing &= limit.units == 0;
  }
  Mode& mode = check.demand.mode;
  if (takes_nothing && (mode == Mode::kConsume || mode == Mode::kCharge)) mode = Mode::kPeek;
  return {};
}

// Reserves memory for all keys, so that views into keys_ stay valid.
void MatchedLimits::ReserveKeys() {
  std::size_t bytes = 0;
  for (const RuleMatch& match : rules()) {
    for (const IndexedLimit& limit : match.limits) {
      bytes += match.key_prefix.size() + limit.tag.size();
    }
  }
  keys_.clear();
  keys_.reserve(bytes);
}

void MatchedLimits::Add(const RuleMatch& match, const IndexedLimit& limit, std::uint16_t group,
                        StoreCheck& check, std::vector<LimitAnswer>& limits) {
  const bool enforced = group == 0;
  if (!Supports(limit.limit, check.demand.mode)) {
    skipped_ |= enforced;
    exempt_ |= enforced;
    return;
  }
  const std::int64_t units = request_->UnitsOf(limit.counts).value_or(kTooMany);
  const std::size_t begin = keys_.size();
  keys_.append(match.key_prefix).append(limit.tag);
  check.counters.push_back({.key = std::string_view(keys_).substr(begin),
                            .limit = &limit.limit,
                            .group = group,
                            .units = units});
  const Adaptation* const adapt = AdaptationOf(limit.limit);
  limits.push_back({.rule = match.rule,
                    .index = static_cast<std::uint32_t>(&limit - match.limits.data()),
                    .counter = static_cast<std::uint32_t>(limits.size()),
                    .algorithm = AlgorithmOf(limit.limit),
                    .lower_bound = adapt != nullptr ? adapt->min : 0,
                    .units = units,
                    .counts = &limit.counts});
  has_enforced_ |= enforced;
}

}  // namespace sluice
