#include "limiter/charge_back.h"

#include <utility>

namespace sluice {

ChargeBack::Check::Check(ChargeBack& its_owner, OwedCharges::Charge owed)
    : owner(its_owner), charge(std::move(owed)) {
  counters.push_back({.key = charge.key, .limit = &charge.limit, .verdict = {}});
  demand = {.cost = charge.cost, .mode = Mode::kCharge};
}

void ChargeBack::OnTime() {
  if (undecided_ > 0) return;
  under_way_.clear();
  Fallback& fallback = limiter_.fallback();
  for (auto& charge : fallback.owed.Take(store_takes_ ? kMostAtOnce : 1, fallback.clock.Now())) {
    under_way_.push_back(std::make_unique<Check>(*this, std::move(charge)));
  }
  undecided_ = under_way_.size();
  const SteadyTime deadline = SteadyNow() + kTimeout;
  for (const auto& check : under_way_) {
    check->deadline = deadline;
    limiter_.store().Submit(*check);
  }
}

void ChargeBack::OnDecided(Check& check) {
  --undecided_;
  Fallback& fallback = limiter_.fallback();
  const auto units = static_cast<std::uint64_t>(check.charge.cost);
  const auto failure = check.failure();
  store_takes_ = !failure;
  if (failure == StoreFailure::kTimeout) {
    limiter_.metrics().units_unknown.Increment(units);
  } else if (failure) {
    fallback.owed.PutBack(std::move(check.charge), fallback.clock.Now());
  } else {
    limiter_.metrics().units_charged.Increment(units);
    fallback.Learn(check);
  }
}

}  // namespace sluice
