#include "limiter/lease_call.h"

#include <algorithm>

#include <fmt/format.h>

#include "limiter/lease_name.h"

namespace sluice {
namespace {

// The maximum for a lease whose id does not bind its ttl, if no current rule gives one.
constexpr Duration kMaxUnboundTtl = std::chrono::hours(1);

Duration LongestTtl(const RuleIndex& rules, const LeaseName& name) {
  Duration longest = name.ttl;
  for (const std::string_view key : name.keys) {
    longest = std::min(longest, rules.LeaseTtl(key).value_or(kMaxUnboundTtl));
  }
  return longest;
}

}  // namespace

void Limiter::GiveLeaseBack(std::string_view lease_id) const {
  static const Limit kConcurrency = Concurrency{};
  struct Granted final : StoreCheck {
    void OnDecided() override {}
  } granted;
  const auto name = LeaseName::Parse(lease_id);
  if (!name) return;
  for (const std::string_view key : name->keys) {
    granted.counters.push_back({.key = key,
                                .limit = &kConcurrency,
                                .verdict = {},
                                .charged = true,
                                .before = UsageSnapshot{}});
  }
  granted.lease = name->lease();
  if (name->local) parts_.fallback.leases.Released(granted.lease->id);
  (name->local ? parts_.local : parts_.store).Undo(granted);
}

void LeaseCall::Start(Action action, std::string_view lease_id, SteadyTime caller_deadline) {
  const auto name = LeaseName::Parse(lease_id);
  if (!name) return OnLease(name.error());
  counters.clear();
  for (const std::string_view key : name->keys) {
    counters.push_back({.key = key, .limit = &concurrency_, .verdict = {}});
  }
  demand.mode = action == Action::kRenew ? Mode::kRenew : Mode::kRelease;
  lease = name->lease();
  if (!name->binds_ttl) lease->ttl = LongestTtl(*limiter_.rules()->index, *name);
  limiter_.SetDeadlines(*this, SteadyNow(), caller_deadline);
  by_fallback_ = name->local;
  (name->local ? limiter_.local_store() : limiter_.store()).Submit(*this);
}

void LeaseCall::OnDecided() {
  const auto failed = failure();
  if (failed == StoreFailure::kCallerTimeout) {
    return OnLease(Error{ErrorCode::kDeadlineExceeded,
                         "the deadline passed before the store answered; the lease is valid until "
                         "its ttl has passed"});
  }
  if (failed) {
    return OnLease(
        Error{ErrorCode::kUnavailable,
              fmt::format("the store failed ({}); the lease is valid until its ttl has passed",
                          ToString(*failed))});
  }
  if (!admitted) {
    return OnLease(
        Error{ErrorCode::kNotFound,
              "lease_id: the lease has expired or was released; it cannot be taken again"});
  }
  if (by_fallback_) ReportLater();
  OnLease(demand.mode == Mode::kRenew ? lease->ttl : Duration::zero());
}

void LeaseCall::ReportLater() const {
  FallbackLeases& leases = limiter_.fallback().leases;
  if (demand.mode == Mode::kRelease) return leases.Released(lease->id);
  leases.Renewed(lease->id, SteadyNow() + lease->ttl);
}

}  // namespace sluice
