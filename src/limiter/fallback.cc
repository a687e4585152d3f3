#include "limiter/fallback.h"

#include <bit>

#include "base/hash.h"
#include "core/counter.h"

namespace sluice {
namespace {

// The version differs whenever the counter's initial state would.
std::uint64_t VersionOf(const std::optional<SeenState>& seen, const Share& share) {
  const auto number = [](auto value) { return static_cast<std::size_t>(value); };
  std::size_t version = CombineHash(number(share.parts), number(share.of));
  version = CombineHash(version, number(share.rank));
  if (!seen) return version;
  for (const double field : FieldsOf(seen->snapshot)) {
    version = CombineHash(version, std::bit_cast<std::uint64_t>(field));
  }
  return version;
}

}  // namespace

void Fallback::Expect(const StoreCheck& check) const {
  for (const CounterCheck& counter : check.counters) states.Prefetch(counter.key);
}

void Fallback::Learn(const StoreCheck& check) {
  for (const CounterCheck& counter : check.counters) {
    if (counter.failure || std::holds_alternative<Concurrency>(*counter.limit)) continue;
    SeenState seen{.snapshot = counter.before,
                   .reset_at = counter.decided_at + counter.verdict.reset_after,
                   .at = counter.decided_at};
    if (counter.charged) Take(*counter.limit, seen.snapshot, check.demand.cost);
    states.Learn(counter.key, seen);
  }
}

void Fallback::OnLateAnswer(const StoreCheck& check) {
  if (check.demand.mode == Mode::kRefund) NoteClearing(check);
  Learn(check);
}

// If an undo has failed, it may have run.
void Fallback::OnUndoEnded(const StoreCheck& undo) {
  NoteClearing(undo);
  Learn(undo);
}

void Fallback::NoteClearing(const StoreCheck& check) {
  for (const CounterCheck& counter : check.counters) clearings.Note(counter.key, SteadyNow());
}

void Fallback::Forget(std::string_view key) {
  clearings.Note(key, SteadyNow());
  states.Forget(key, clock.Now());
  owed.Forget(key);
  leases.Forget(key);
}

// Subtracts units admitted here since the state was seen, which the store does not know of yet.
Fallback::LocalCounter Fallback::Localize(std::string_view key, const Limit& limit) const {
  const Share mine = share.Get();
  LocalCounter local{.limit = LimitFor(limit, mine)};
  // The holders of slots are unknown, and are kept when the share changes.
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

bool Fallback::RecordCharge(std::string_view key, const Limit& limit, std::int64_t cost) {
  const Share mine = share.Get();
  const auto seen = states.Find(key);
  const FallbackCharges::Subject subject{.key = key, .limit = limit, .share = mine, .seen = seen};
  return owed.Add(subject, cost, clock.Now());
}

}  // namespace sluice
