#include "limiter/fallback_reconciler.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace sluice {
namespace {

const Limit kConcurrency = Concurrency{};

// The lease gets a separate id in the store. The check that was granted locally may also have been
// granted by the store, too late; that slot is released when the reply arrives.
LeaseId NameInStore(const LeaseId& id) {
  return Sha256Prefix128({reinterpret_cast<const char*>(id.data()), id.size()});
}

}  // namespace

FallbackReconciler::ChargeCheck::ChargeCheck(FallbackReconciler& its_owner,
                                             FallbackCharges::Charge owed)
    : owner(its_owner), charge(std::move(owed)) {
  counters.push_back({.key = charge.key, .limit = &charge.limit, .verdict = {}});
  demand = {.cost = charge.cost, .mode = Mode::kCharge};
}

FallbackReconciler::LeaseCheck::LeaseCheck(FallbackReconciler& its_owner,
                                           FallbackLeases::Change its_change, SteadyTime now)
    : owner(its_owner), change(std::move(its_change)) {
  for (const std::string& key : change.keys) {
    counters.push_back({.key = key, .limit = &kConcurrency, .verdict = {}});
  }
  demand = {.cost = change.slots, .mode = change.released ? Mode::kRelease : Mode::kCharge};
  const auto left = std::chrono::duration_cast<Duration>(change.expires - now);
  lease = {.id = NameInStore(change.id), .ttl = std::max<Duration>(left, Duration(1))};
}

void FallbackReconciler::OnTime() {
  if (undecided_ > 0) return;
  under_way_.clear();
  Fallback& fallback = limiter_.fallback();
  const SteadyTime now = SteadyNow();
  const std::size_t most = store_takes_ ? kMostAtOnce : 1;
  fallback.charging = true;
  for (auto& change : fallback.leases.Take(most, now)) {
    under_way_.push_back(std::make_unique<LeaseCheck>(*this, std::move(change), now));
  }
  for (auto& charge : fallback.owed.Take(most, fallback.clock.Now())) {
    under_way_.push_back(std::make_unique<ChargeCheck>(*this, std::move(charge)));
  }
  undecided_ = under_way_.size();
  fallback.charging = undecided_ > 0;
  for (const auto& check : under_way_) {
    check->deadline = now + kTimeout;
    limiter_.store().Submit(*check);
  }
}

void FallbackReconciler::OnCharged(ChargeCheck& check) {
  Fallback& fallback = limiter_.fallback();
  const auto units = static_cast<std::uint64_t>(check.charge.cost);
  const auto failure = check.failure();
  if (failure == StoreFailure::kTimeout) {
    limiter_.metrics().units_unknown.Increment(units);
  } else if (failure) {
    fallback.owed.PutBack(std::move(check.charge), fallback.clock.Now());
  } else {
    limiter_.metrics().units_charged.Increment(units);
  }
  NoteDecided(check);
  if (failure) return;
  const std::size_t part = limiter_.store().PartOf(check.charge.key);
  fallback.OnPartFound(part);
  if (!fallback.Settles(part)) fallback.Learn(check);
}

// Reporting twice is harmless.
void FallbackReconciler::OnTold(const LeaseCheck& check) {
  if (check.failure()) limiter_.fallback().leases.PutBack(check.change);
  NoteDecided(check);
}

void FallbackReconciler::NoteDecided(const StoreCheck& check) {
  limiter_.fallback().charging = --undecided_ > 0;
  store_takes_ = !check.failure();
}

}  // namespace sluice
