#include "envoy/rls/descriptor_check.h"

#include <algorithm>
#include <limits>

#include "envoy/rules/compiler.h"

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

void DescriptorCheck::FindLimit(const DomainGuide& domain, std::span<const Entry> entries) {
  has_override_ = false;
  Match(domain, entries, match_);
}

void DescriptorCheck::SetOverride(const RequestedDescriptor::RateLimitOverride& limit,
                                  std::span<const Entry> entries) {
  match_.counter.clear();
  for (const Entry& entry : entries) AppendEntry(entry.key, entry.value, match_.counter);
  DigestIfLong(match_.counter);
  has_override_ = true;
  override_unit_ = static_cast<Unit>(limit.unit());
  override_requests_ = limit.requests_per_unit();
  override_limit_.limit = LimitOf(override_unit_, override_requests_);
  override_limit_.tag = CounterTag(override_limit_.limit);
}

void DescriptorCheck::SetHits(std::uint64_t hits, bool is_negative) {
  hits_ = std::min(hits, static_cast<std::uint64_t>(kMaxProduct));
  is_negative_ = is_negative;
}

std::string_view DescriptorCheck::metric() const {
  if (has_override_) return kOverrideRule;
  return match_.metric.empty() ? std::string_view(match_.target->rule) : match_.metric;
}

// If `count_denied` is set, hits beyond the limit are counted, too, except by Sluice's own limits.
void DescriptorCheck::Start(const Context& context) {
  is_quota_ = context.quota_mode || (target() != nullptr && target()->quota_mode);
  is_shadow_ = context.shadow_mode;
  is_over_ = from_cache_ = has_charged_ = refunds_request_ = false;
  const bool own_limits = target() != nullptr && target()->own_limits;
  const bool consumes = own_limits || !context.count_denied;
  Demand demand{.mode = consumes ? Mode::kConsume : Mode::kCharge};
  if (own_limits) demand.max_wait = Duration::zero();  // Envoy cannot wait
  if (is_negative_) demand.mode = Mode::kRefund;
  if (hits_ == 0) demand.mode = Mode::kPeek;
  if (is_negative_) demand.max_wait.reset();
  Ask(context, demand);
}

// If a limit counts requests, Start has also charged 1 for kRequests. This 1 is refunded, too.
void DescriptorCheck::Refund(const Context& context) {
  has_charged_ = false;
  refunds_request_ = target() != nullptr && target()->counts_requests;
  Ask(context, {.mode = Mode::kRefund, .charged_at = decided_at_});
}

void DescriptorCheck::Ask(const Context& context, const Demand& demand) {
  request.Clear();
  request.domain = context.domain;
  request.attributes = {
      {kRuleAttribute, has_override_ ? kOverrideRule : std::string_view(match_.target->rule)},
      {kDescriptorAttribute, match_.counter}};
  request.cost = static_cast<std::int64_t>(hits_);
  request.demand = demand;
  if (refunds_request_) request.amounts = {{CountedAmount::kRequests, 1}};
  request.deadline = context.deadline;
  request.in_order = context.in_order;
  request.ask_store = context.ask_store;
  request.charge_decides = true;
  request.rules = context.rules;
  if (has_override_) request.limits = {&override_limit_, 1};
  CheckCall::Start(context.received);
}

void DescriptorCheck::OnAnswer(const Result<CheckAnswer>& answer) {
  // It is not the caller's error if a limit does not support refunds.
  const bool no_refund = !answer && request.demand.mode == Mode::kRefund &&
                         answer.error().code == ErrorCode::kInvalidArgument;
  if (answer) {
    Read(*answer);
    ObserveDuration();
  }
  on_decided_(*this, answer || no_refund ? nullptr : &answer.error());
}

void DescriptorCheck::Read(const CheckAnswer& answer) {
  if (answer.limits.empty()) {
    if (answer.source == Source::kRule) status_->set_limit_remaining(kAll);  // unlimited
    return;
  }
  const LimitAnswer& limit = Narrowest(answer.limits);
  if (request.demand.mode != Mode::kRefund) {
    is_over_ = !limit.verdict.admitted;
    from_cache_ = limit.source == Source::kDenyCache;
    has_charged_ = !is_over_ && hits_ > 0;
    decided_at_ = answer.decided_at;
    if (is_over_ && !limit.rule->rule.shadow) status_->set_code(Response::OVER_LIMIT);
  }
  ReadLimit(limit);
  ReadQuota(limit);
}

void DescriptorCheck::ReadLimit(const LimitAnswer& limit) {
  ReadCurrentLimit(limit);
  std::uint32_t remaining = 0;
  if (!is_over_) {
    remaining = limit.state_known ? Clamp(limit.verdict.remaining)
                                  : status_->current_limit().requests_per_unit();
  }
  status_->set_limit_remaining(remaining);
  status_->clear_duration_until_reset();
  if (limit.verdict.reset_after > Duration::zero()) {
    status_->mutable_duration_until_reset()->set_seconds(
        std::chrono::ceil<std::chrono::seconds>(limit.verdict.reset_after).count());
  }
}

// A full window admits no hit until it ends, so the quota tells the caller to deny requests itself
// until then. No quota is set for Sluice's own limits, or if the full limit does not deny the
// request (quota_mode or shadow_mode), or if the store failed and only this server's share of the
// limit is full.
void DescriptorCheck::ReadQuota(const LimitAnswer& limit) {
  status_->clear_quota();
  const bool own_limits = target() != nullptr && target()->own_limits;
  const bool by_share = limit.source == Source::kFallback || !limit.state_known;
  if (status_->code() != Response::OVER_LIMIT || is_quota_ || is_shadow_) return;
  if (own_limits || by_share || limit.verdict.remaining > 0) return;
  const auto until = (decided_at_ + limit.verdict.reset_after).time_since_epoch();
  status_->mutable_quota()->set_requests(1);  // the denied request
  status_->mutable_quota()->mutable_valid_until()->set_seconds(
      std::chrono::floor<std::chrono::seconds>(until).count());
}

void DescriptorCheck::ReadCurrentLimit(const LimitAnswer& limit) {
  Response::RateLimit& to = *status_->mutable_current_limit();
  const auto set = [&](std::uint32_t requests, Unit unit) {
    to.set_requests_per_unit(requests);
    to.set_unit(static_cast<Response::RateLimit::Unit>(unit));
  };
  if (has_override_) return set(override_requests_, override_unit_);
  const Target& it = *match_.target;
  to.set_name(it.name);
  if (it.own_limits) return set(Clamp(limit.verdict.limit), Unit::kUnknown);
  set(it.requests_per_unit, it.unit);
}

}  // namespace sluice::envoy
