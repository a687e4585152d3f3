#include "limiter/lease_call.h"

#include <algorithm>

#include <fmt/format.h>

#include "limiter/lease_name.h"

namespace sluice {

void LeaseCall::Start(Action action, std::string_view lease_id, SteadyTime caller_deadline) {
  const auto name = LeaseName::Parse(lease_id);
  if (!name) return OnLease(name.error());
  SetSlotCounters(name->keys, *this);
  demand.mode = action == Action::kRenew ? Mode::kRenew : Mode::kSettle;
  lease = name->lease();
  limiter_.SetDeadlines(*this, SteadyNow(), caller_deadline);
  by_fallback_ = name->local;
  asks_for_another_ = false;
  (name->local ? limiter_.local_store() : limiter_.store()).Submit(*this);
}

// If another server granted the lease while the store failed, it has reported it since.
void LeaseCall::AskStore() {
  by_fallback_ = false;
  asks_for_another_ = true;
  lease->id = NameInStore(lease->id);
  limiter_.store().Submit(*this);
}

bool LeaseCall::MayNotBeReportedYet() const {
  return std::any_of(counters.begin(), counters.end(), [this](const CounterCheck& it) {
    return limiter_.fallback().InGracePeriod(it.key);
  });
}

void LeaseCall::OnDecided() {
  if (by_fallback_ && !(admitted && IsOfThisServer())) return AskStore();
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
  if (asks_for_another_ && MayNotBeReportedYet()) {
    return OnLease(Error{ErrorCode::kUnavailable,
                         "the store has just come back, and the server that granted the lease may "
                         "not have reported it yet"});
  }
  if (!admitted) {
    return OnLease(
        Error{ErrorCode::kNotFound,
              "lease_id: the lease has expired or was released; it cannot be taken again"});
  }
  OnLease(demand.mode == Mode::kRenew ? lease->ttl : Duration::zero());
}

bool LeaseCall::IsOfThisServer() const {
  PendingLeases& leases = limiter_.fallback().leases;
  if (demand.mode == Mode::kSettle) return leases.Released(lease->id);
  leases.Renewed(lease->id, SteadyNow() + lease->ttl);
  return true;
}

}  // namespace sluice
