#include "envoy/rls/descriptor_check.h"

#include <algorithm>
#include <limits>

#include "envoy/rules/compiler.h"
#include "envoy/rules/entry_text.h"

namespace sluice::envoy {
namespace {

constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();

std::uint32_t Clamp(std::int64_t number) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(number, 0, kAll));
}

// The limit to report for a descriptor: the first one that is over, otherwise the one with the
// least remaining.
const LimitAnswer& Narrowest(const std::vector<LimitAnswer>& limits) {
  return *std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
    if (a.verdict.admitted != b.verdict.admitted) return !a.verdict.admitted;
    return a.verdict.admitted && a.verdict.remaining < b.verdict.remaining;
  });
}

}  // namespace

void DescriptorCheck::FollowTo(const DomainGuide& domain, std::span<const Entry> entries) {
  brings_limit_ = false;
  Guide::Follow(domain, entries, walk_);
}

void DescriptorCheck::BringLimit(const RequestedLimit& limit, std::span<const Entry> entries) {
  walk_.counter.clear();
  for (const Entry& entry : entries) AppendEntry(entry.key, entry.value, walk_.counter);
  DigestIfLong(walk_.counter);
  brings_limit_ = true;
  brought_ = limit;
  brought_limit_.limit = LimitOf(static_cast<Unit>(limit.unit), limit.requests_per_unit);
  brought_limit_.tag = CounterTag(brought_limit_.limit);
}

void DescriptorCheck::SetHits(std::uint64_t hits, bool is_negative) {
  hits_ = std::min(hits, static_cast<std::uint64_t>(kMaxProduct));
  is_negative_ = is_negative;
}

std::string_view DescriptorCheck::metric() const {
  if (brings_limit_) return kOverrideRule;
  return walk_.metric.empty() ? std::string_view(walk_.target->rule) : walk_.metric;
}

// Hits beyond the limit are counted, unless the rule has Sluice's own limits.
void DescriptorCheck::Start(const Terms& terms, std::size_t position) {
  position_ = position;
  status_ = {.quota = target() != nullptr && target()->quota_mode};
  is_over_ = from_cache_ = took_ = false;
  const bool own_limits = target() != nullptr && target()->own_limits;
  const bool consumes = own_limits || !terms.count_denied;
  Demand demand{.cost = static_cast<std::int64_t>(hits_),
                .mode = consumes ? Mode::kConsume : Mode::kCharge};
  if (own_limits) demand.max_wait = Duration::zero();  // Envoy would not wait
  if (is_negative_) demand.mode = Mode::kRefund;
  if (hits_ == 0) demand.mode = Mode::kPeek;
  if (is_negative_) demand.max_wait.reset();
  Ask(terms, demand);
}

void DescriptorCheck::GiveBack(const Terms& terms) {
  took_ = false;
  Ask(terms,
      {.cost = static_cast<std::int64_t>(hits_), .mode = Mode::kRefund, .charged_at = decided_at_});
}

void DescriptorCheck::Ask(const Terms& terms, const Demand& demand) {
  request.Clear();
  request.domain = terms.domain;
  request.attributes = {
      {kRuleAttribute, brings_limit_ ? kOverrideRule : std::string_view(walk_.target->rule)},
      {kDescriptorAttribute, walk_.counter}};
  request.demand = demand;
  request.deadline = terms.deadline;
  request.in_order = terms.in_order;
  request.ask_store = terms.ask_store;
  request.charge_decides = true;
  request.rules = terms.rules;
  if (brings_limit_) request.limits = {&brought_limit_, 1};
  CheckCall::Start(terms.received);
}

void DescriptorCheck::OnAnswer(const Result<CheckAnswer>& answer) {
  // It is not the caller's mistake if a limit does not support refunds.
  const bool no_refund = !answer && request.demand.mode == Mode::kRefund &&
                         answer.error().code == ErrorCode::kInvalidArgument;
  if (answer) {
    Read(*answer);
    ObserveDuration();
  }
  owner_.OnDecided(*this, answer || no_refund ? nullptr : &answer.error());
}

void DescriptorCheck::Read(const CheckAnswer& answer) {
  if (answer.limits.empty()) {
    if (answer.source == Source::kRule) status_.remaining = kAll;  // unlimited
    return;
  }
  const bool gives_back = request.demand.mode == Mode::kRefund;
  const LimitAnswer& limit = Narrowest(answer.limits);
  if (!gives_back) {
    is_over_ = !limit.verdict.admitted;
    from_cache_ = limit.source == Source::kDenyCache;
    took_ = !is_over_ && hits_ > 0;
    decided_at_ = answer.decided_at;
    if (is_over_ && !limit.rule->rule.shadow) status_.code = Code::kOverLimit;
  }
  ReadLimit(limit);
}

void DescriptorCheck::ReadLimit(const LimitAnswer& limit) {
  status_.limit = CurrentLimitOf(limit);
  status_.remaining = 0;
  if (!is_over_) {
    status_.remaining =
        limit.state_known ? Clamp(limit.verdict.remaining) : status_.limit->requests_per_unit;
  }
  status_.until_reset.reset();
  if (limit.verdict.reset_after > Duration::zero()) {
    status_.until_reset = std::chrono::ceil<std::chrono::seconds>(limit.verdict.reset_after);
  }
}

CurrentLimit DescriptorCheck::CurrentLimitOf(const LimitAnswer& limit) const {
  if (brings_limit_) {
    return {.requests_per_unit = brought_.requests_per_unit,
            .unit = static_cast<Unit>(brought_.unit),
            .name = {}};
  }
  const Target& it = *walk_.target;
  if (it.own_limits) {
    return {
        .requests_per_unit = Clamp(limit.verdict.limit), .unit = Unit::kUnknown, .name = it.name};
  }
  return {.requests_per_unit = it.requests_per_unit, .unit = it.unit, .name = it.name};
}

}  // namespace sluice::envoy
