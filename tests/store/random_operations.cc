#include "tests/store/random_operations.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "store/redis/script_call.h"

namespace sluice::test {
using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Duration RandomOperations::RandomStep() {
  if (random_.OneIn(3)) return edges_[random_.Below(edges_.size())] - Duration(random_.Below(2));
  const auto some = static_cast<std::int64_t>(1 + random_.Below(1000));
  if (random_.OneIn(50))
    return -random_.Pick<Duration>({Duration(1), milliseconds(1), milliseconds(999), seconds(1),
                                    seconds(1) + Duration(1), hours(1)});
  if (random_.OneIn(200))
    return random_.Pick<Duration>({hours(some), days(some), minutes(some), -days(some)});
  return random_.Pick<Duration>({Duration(0), Duration(some), milliseconds(some), seconds(some)});
}

Operation RandomOperations::RandomOperation(Time now) {
  if (!leases_.empty() && random_.OneIn(8)) return RandomLeaseOperation(now);
  if (!unit_leases_.empty() && random_.OneIn(4)) return RandomOperationOnUnits(now);
  if (!grants_.empty() && random_.OneIn(8)) return UndoOfSomeGrant();
  const Mode mode = random_.Pick({Mode::kConsume, Mode::kConsume, Mode::kConsume, Mode::kConsume,
                                  Mode::kPeek, Mode::kCharge, Mode::kRefund});
  Operation operation;
  operation.check = RandomCheck(mode);
  BlockingCheck& check = *operation.check;
  if (check.HasNoUnits() && random_.OneIn(2)) check.demand.mode = Mode::kPeek;
  if (random_.OneIn(3)) check.demand.max_wait = RandomWait();
  check.demand.only_delays = check.demand.max_wait && random_.OneIn(2);
  if (mode == Mode::kRefund && random_.OneIn(2)) check.demand.charged_at = now - RandomWait();
  bool may_run = check.demand.consumes_or_peeks() || redis::MayCoalesceCharge(check);
  for (const CounterCheck& counter : check.counters) {
    may_run &= MayCoalesce(*counter.limit);
    const auto* const slots = std::get_if<Concurrency>(counter.limit);
    if (slots != nullptr && mode == Mode::kConsume && counter.units > 0) {
      check.lease = NewLease(slots->ttl);
    }
  }
  if (mode == check.demand.mode && mode == Mode::kConsume && random_.OneIn(3)) {
    check.leases_units = true;
    if (!check.lease) check.lease = NewLease(RandomWait() + milliseconds(1));
    return operation;
  }
  const bool may_grant =
      std::any_of(check.counters.begin(), check.counters.end(), [](const CounterCheck& counter) {
        return std::holds_alternative<TokenBucket>(*counter.limit) ||
               std::holds_alternative<FixedWindow>(*counter.limit);
      });
  if (!check.lease && check.demand.consumes_or_peeks() && random_.OneIn(may_grant ? 2 : 20)) {
    AskForGrants(check);
    return operation;
  }
  if (may_run && random_.OneIn(2)) operation.n = random_.Pick<std::int64_t>({2, 3, 10, 50});
  return operation;
}

void RandomOperations::AskForGrants(BlockingCheck& check) {
  check.concerns_grants = true;
  for (CounterCheck& counter : check.counters) {
    if (random_.OneIn(2)) {
      const Duration life = random_.Pick<Duration>(
          {Duration(1), milliseconds(100), kMaxPrefetch, RandomWait() + milliseconds(1)});
      counter.wanted = {RandomCost(), std::min<Duration>(life, kMaxPrefetch)};
      if (random_.OneIn(2)) counter.units = std::min<std::int64_t>(counter.units, 1);
    }
    const auto held = std::find_if(prefetched_.begin(), prefetched_.end(),
                                   [&](const auto& it) { return it.key == counter.key; });
    if (held == prefetched_.end() || random_.OneIn(3)) continue;
    const std::int64_t granted = held->grant.units;
    counter.returned = {
        held->grant.generation, granted,
        static_cast<std::int64_t>(random_.Below(static_cast<std::size_t>(granted + 1)))};
    if (!random_.OneIn(5)) prefetched_.erase(held);
  }
}

void RandomOperations::RememberPrefetched(const StoreCheck& check) {
  for (const CounterCheck& counter : check.counters) {
    if (counter.grant.units > 0) prefetched_.push_back({std::string(counter.key), counter.grant});
  }
  if (prefetched_.size() > 50) prefetched_.erase(prefetched_.begin());
}

void RandomOperations::RememberLease(const BlockingCheck& check) {
  std::vector<CounterSpec> held;
  if (check.leases_units) {
    for (const CounterCheck& counter : check.counters) {
      held.push_back({std::string(counter.key), *counter.limit, counter.group, counter.units});
    }
    if (unit_leases_.size() >= 50) unit_leases_.erase(unit_leases_.begin());
    unit_leases_.push_back({*check.lease, check.decided_at, std::move(held)});
    return;
  }
  for (const CounterCheck& counter : check.counters) {
    if (!std::holds_alternative<Concurrency>(*counter.limit)) continue;
    held.push_back({std::string(counter.key), *counter.limit});
  }
  HeldLease lease{*check.lease, check.decided_at, std::move(held)};
  if (leases_.size() < 200) return leases_.push_back(std::move(lease));
  leases_[random_.Below(leases_.size())] = std::move(lease);
}

void RandomOperations::RememberGrant(const StoreCheck& check) {
  auto grant = std::make_unique<OwnedCheck>(check);
  std::erase_if(grant->counters, [](const CounterCheck& counter) { return !counter.charged; });
  if (grant->counters.empty()) return;
  if (grants_.size() < 50) return grants_.push_back(std::move(grant));
  grants_[random_.Below(grants_.size())] = std::move(grant);
}

Operation RandomOperations::RandomLeaseOperation(Time now) {
  const HeldLease& held = leases_[random_.Below(leases_.size())];
  Operation operation;
  const Mode mode = random_.Pick({Mode::kSettle, Mode::kRenew, Mode::kCharge});
  operation.check = std::make_unique<BlockingCheck>(
      held.counters, random_.Pick<std::int64_t>({1, 2, 7, 256, 257}), mode);
  operation.check->lease = Ending(held);
  if (mode == Mode::kCharge && MayHaveEnded(held, now)) {
    operation.check->lease = NewLease(held.lease.ttl);
  }
  return operation;
}

// Mostly settles a lease, which may already be settled.
Operation RandomOperations::RandomOperationOnUnits(Time now) {
  HeldLease held = unit_leases_[random_.Below(unit_leases_.size())];
  const Mode mode = random_.Pick(
      {Mode::kSettle, Mode::kSettle, Mode::kSettle, Mode::kRenew, Mode::kInspect, Mode::kCharge});
  for (CounterSpec& spec : held.counters) {
    if (mode == Mode::kSettle && random_.OneIn(4)) spec.units = kAsTaken;
    if (mode == Mode::kSettle && random_.OneIn(2)) spec.units = RandomCost();
    if (mode == Mode::kCharge) spec.units = std::min(*spec.units, MostAtOnce(spec.limit));
  }
  const bool is_new = mode == Mode::kCharge && (random_.OneIn(2) || MayHaveEnded(held, now));
  if (is_new) held.lease = NewLease(held.lease.ttl);
  Operation operation;
  operation.check = std::make_unique<BlockingCheck>(held.counters, 1, mode);
  operation.check->lease = Ending(held);
  operation.check->leases_units = true;
  return operation;
}

Operation RandomOperations::UndoOfSomeGrant() {
  const std::size_t place = random_.OneIn(2) ? grants_.size() - 1 : random_.Below(grants_.size());
  const auto undo = std::move(grants_[place]);
  grants_.erase(grants_.begin() + static_cast<std::ptrdiff_t>(place));
  std::vector<CounterSpec> specs;
  for (const CounterCheck& counter : undo->counters) {
    specs.push_back({std::string(counter.key), *counter.limit, counter.group, counter.units});
  }
  Operation operation;
  operation.check = std::make_unique<BlockingCheck>(std::move(specs), 1, Mode::kUndo);
  operation.check->lease = undo->lease;
  for (std::size_t i = 0; i < undo->counters.size(); ++i) {
    operation.check->counters[i].before = undo->counters[i].before;
  }
  return operation;
}

bool RandomOperations::MayHaveEnded(const HeldLease& held, Time now) {
  return now < held.taken || now >= held.taken + held.lease.ttl;
}

Lease RandomOperations::Ending(const HeldLease& held) {
  Lease lease = held.lease;
  if (random_.OneIn(4)) return lease;
  lease.report = HoldReport{.taken = held.taken, .duration = std::nullopt};
  if (random_.OneIn(4)) lease.report->duration = HoldReport::kOverload;
  if (random_.OneIn(4)) lease.report->duration = RandomWait();
  return lease;
}

std::int64_t RandomOperations::RandomCost() {
  return random_.OneIn(20) ? random_.Pick<std::int64_t>({1000, 1'000'000, kMaxCost - 1, kMaxCost})
                           : random_.Pick<std::int64_t>({0, 1, 1, 1, 1, 2, 3, 5, 7, 10, 20});
}

Duration RandomOperations::RandomWait() {
  constexpr Duration kMost = days(365);
  return random_.OneIn(4) ? std::clamp(edges_[random_.Below(edges_.size())], Duration(0), kMost)
                          : random_.Pick<Duration>({Duration(0), Duration(1), milliseconds(20),
                                                    seconds(1), minutes(1), hours(1), kMost});
}

Lease RandomOperations::NewLease(Duration ttl) {
  Lease lease{.ttl = ttl};
  for (auto& byte : lease.id) byte = static_cast<std::uint8_t>(random_.Below(256));
  return lease;
}

std::unique_ptr<BlockingCheck> RandomOperations::RandomCheck(Mode mode) {
  std::vector<CounterSpec> specs;
  std::vector<const Limit*> limits;
  std::uint16_t group = random_.OneIn(10) ? 1 : 0;
  const std::size_t count = random_.OneIn(2) ? 1 : 1 + random_.Below(4);
  while (specs.size() < count) {
    const RandomRules::Rule rule = rules_.Next();
    if (!Supports(*rule.limit, mode)) continue;
    bool known = false;
    for (const CounterSpec& spec : specs) known |= spec.key == rule.key;
    if (!known) {
      specs.push_back({rule.key, *rule.limit, group});
      limits.push_back(rule.limit);
    }
    if (random_.OneIn(4)) ++group;
  }
  auto check = std::make_unique<BlockingCheck>(std::move(specs), RandomCost(), mode);
  const bool differ = random_.OneIn(2);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    check->counters[i].limit = limits[i];
    if (differ) check->counters[i].units = RandomCost();
  }
  return check;
}

}  // namespace sluice::test
