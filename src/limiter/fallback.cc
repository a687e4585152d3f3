#include "limiter/fallback.h"

#include "base/hash.h"
#include "core/counter.h"

namespace sluice {
namespace {

// Differs whenever a counter would begin otherwise.
std::uint64_t VersionOf(const std::optional<SeenState>& seen, const Share& share) {
  const auto number = [](auto value) { return static_cast<std::size_t>(value); };
  std::size_t version = CombineHash(number(share.parts), number(share.of));
  version = CombineHash(version, number(share.rank));
  if (!seen) return version;
  version = CombineHash(version, number(seen->at.time_since_epoch().count()));
  version = CombineHash(version, number(seen->remaining));
  return CombineHash(version, number(seen->reset_at.time_since_epoch().count()));
}

}  // namespace

void Fallback::Expect(const StoreCheck& check) const {
  for (const CounterCheck& counter : check.counters) states.Prefetch(counter.key);
}

void Fallback::Learn(const StoreCheck& check) {
  for (const CounterCheck& counter : check.counters) {
    if (counter.failure || std::holds_alternative<Concurrency>(*counter.limit)) continue;
    const Verdict& verdict = counter.verdict;
    states.Learn(counter.key, {.limit = verdict.limit,
                               .remaining = verdict.remaining,
                               .reset_at = check.decided_at + verdict.reset_after,
                               .at = check.decided_at});
  }
}

void Fallback::Forget(std::string_view key) {
  states.Forget(key);
  owed.Forget(key);
  leases.Forget(key);
}

// What passed here since the state was seen, and the store does not know yet, is missing from it.
Fallback::LocalCounter Fallback::Localise(std::string_view key, const Limit& limit) const {
  const Share mine = share.Get();
  LocalCounter local{.limit = LimitFor(limit, mine)};
  // Who holds slots is not seen, and is not forgotten when the share changes.
  if (std::holds_alternative<Concurrency>(limit)) return local;
  const Time now = clock.Now();
  const auto seen = states.Find(key);
  CounterSeed& seed = local.seed.emplace(CounterSeed{.version = VersionOf(seen, mine)});
  if (seen) {
    seed.state = Seed(limit, *seen, mine);
  } else {
    seed.keep = Open(local.limit, seed.state, now);
  }
  if (const std::int64_t cost = owed.Find(key, now); cost > 0) {
    Advance(local.limit, seed.state, now);
    Change(local.limit, seed.state, {.demand = {.cost = cost, .mode = Mode::kCharge}, .now = now});
  }
  return local;
}

bool Fallback::Owe(std::string_view key, const Limit& limit, std::int64_t cost) {
  const Share mine = share.Get();
  const auto seen = states.Find(key);
  const OwedCharges::Subject subject{.key = key, .limit = limit, .share = mine, .seen = seen};
  return owed.Add(subject, cost, clock.Now());
}

}  // namespace sluice
