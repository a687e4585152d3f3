#include "limiter/pending_charges.h"

#include <utility>

namespace sluice {
namespace {

// Charges `units`. Returns how many of them the limit cannot hold.
std::int64_t AddTo(PendingCharges::Charge& charge, std::int64_t units, Time now) {
  Advance(charge.shared, charge.charged, now);
  const CoalescedChecks checks{.demand = {{.mode = Mode::kCharge}, units}, .now = now};
  return Change(charge.shared, charge.charged, checks).dropped;
}

// A new sum, without units yet.
PendingCharges::Charge WithoutUnits(const PendingCharges::Subject& subject, const Limit& limit,
                                    Time now) {
  static std::atomic<std::uint64_t> last_serial{0};
  const Limit shared = LimitForCharges(limit, subject.share);
  return {.key = std::string(subject.key),
          .limit = limit,
          .shared = shared,
          .charged = Uncharged(shared, subject.seen, now),
          .serial = ++last_serial};
}

}  // namespace

std::optional<PendingCharges::Added> PendingCharges::Add(const Subject& subject, std::int64_t units,
                                                         Time now) {
  Shard& shard = ShardOf(subject.key);
  const MutexLock lock(shard.mutex);
  auto found = shard.entries.find(subject.key);
  if (found == shard.entries.end()) {
    if (shard.entries.size() >= kMaxCounters / kShards) return std::nullopt;
    found = shard.entries.emplace(subject.key, WithoutUnits(subject, subject.limit, now)).first;
    if (size_.fetch_add(1) == 0 && on_first) on_first();
  }
  Charge& charge = found->second;
  // Overrides and reloads can give one counter several limits. Of those that can hold all units,
  // the store is charged with the last one.
  if (MostAtOnce(subject.limit) >= MostAtOnce(charge.limit)) charge.limit = subject.limit;
  ChangeRate(charge.shared, charge.charged, LimitForCharges(subject.limit, subject.share));
  Advance(charge.shared, charge.charged, now);
  const CoalescedChecks taking{.demand = {{}, units}, .granted = 1, .now = now};
  const Added added{.serial = charge.serial,
                    .before = Summarize(charge.shared, charge.charged, taking)};
  if (const std::int64_t dropped = AddTo(charge, units, now); dropped > 0) {
    const std::int64_t kept = Used(charge.shared, charge.charged);
    charge = WithoutUnits(subject, charge.limit, now);
    AddTo(charge, kept + dropped, now);
  }
  return added;
}

bool PendingCharges::Undo(std::string_view key, Part part, Time now) {
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end() || found->second.serial != part.added.serial) return false;
  Charge& charge = found->second;
  Advance(charge.shared, charge.charged, now);
  sluice::Take(charge.shared, part.added.before, part.used);
  sluice::Undo(charge.shared, charge.charged, part.added.before,
               {.demand = {{.mode = Mode::kUndo}, part.units - part.used}, .now = now});
  return true;
}

std::int64_t PendingCharges::Find(std::string_view key, Time now) const {
  const Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  const auto taken = shard.in_flight.find(key);
  const std::int64_t units = taken == shard.in_flight.end() ? 0 : taken->second;
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end()) return units;
  CounterState charged = found->second.charged;
  Advance(found->second.shared, charged, now);
  return units + Used(found->second.shared, charged);
}

std::int64_t PendingCharges::Sum(Time now) const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [key, units] : shard.in_flight) sum += units;
    for (auto [key, charge] : shard.entries) {
      Advance(charge.shared, charge.charged, now);
      sum += Used(charge.shared, charge.charged);
    }
  }
  return sum;
}

std::vector<PendingCharges::Charge> PendingCharges::Take(std::size_t most, Time now) {
  std::vector<Charge> taken;
  const std::size_t first = next_shard_.fetch_add(1, std::memory_order_relaxed);
  std::size_t looked_at = 0;
  for (std::size_t i = 0;
       i < kShards && taken.size() < most && looked_at < kMostLookedAt && size() > 0; ++i) {
    Shard& shard = shards_[(first + i) % kShards];
    const MutexLock lock(shard.mutex);
    for (auto at = shard.entries.begin(); taken.size() < most && at != shard.entries.end();) {
      ++looked_at;
      if (at->second.pause > 0) {
        --at++->second.pause;
        continue;
      }
      Charge charge = std::move(shard.entries.extract(at++).mapped());
      size_.fetch_sub(1, std::memory_order_relaxed);
      Advance(charge.shared, charge.charged, now);
      charge.units = Used(charge.shared, charge.charged);
      if (charge.units == 0) continue;
      shard.in_flight[charge.key] = charge.units;
      taken.push_back(std::move(charge));
    }
  }
  return taken;
}

void PendingCharges::Settle(const Charge& charge) {
  Shard& shard = ShardOf(charge.key);
  const MutexLock lock(shard.mutex);
  shard.in_flight.erase(charge.key);
}

void PendingCharges::PutBack(Charge charge, Time now, int pause) {
  Shard& shard = ShardOf(charge.key);
  const MutexLock lock(shard.mutex);
  if (shard.in_flight.erase(charge.key) == 0) return;
  const std::string key = charge.key;
  const std::int64_t units = charge.units;
  const auto [at, absent] = shard.entries.try_emplace(key, std::move(charge));
  if (absent) {
    size_.fetch_add(1, std::memory_order_relaxed);
  } else {
    AddTo(at->second, units, now);
  }
  at->second.pause = pause;
}

void PendingCharges::Forget(std::string_view key) {
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  shard.in_flight.erase(std::string(key));
  if (const auto found = shard.entries.find(key); found != shard.entries.end()) {
    shard.entries.erase(found);
    size_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace sluice
