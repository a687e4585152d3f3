#include "limiter/fallback_charges.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

void AddTo(FallbackCharges::Charge& charge, std::int64_t cost, Time now) {
  Advance(charge.shared, charge.charged, now);
  const CoalescedChecks checks{.demand = {.cost = cost, .mode = Mode::kCharge}, .now = now};
  Change(charge.shared, charge.charged, checks);
}

// A bucket with warmup charges prices, which depend on how cold it is. Its units are refilled like
// these.
TokenBucket UnitsOf(const WarmingBucket& limit) {
  const std::int64_t most = TokenBucket::kMaxCapacity / limit.period.count();
  return {.rate = limit.rate, .period = limit.period, .burst = std::min(limit.MostAtOnce(), most)};
}

// The limit for a counter without charges; starts_empty does not apply.
Limit SharedOf(const FallbackCharges::Subject& subject) {
  const auto* const warming = std::get_if<WarmingBucket>(&subject.limit);
  Limit shared = LimitFor(warming ? UnitsOf(*warming) : subject.limit, subject.share);
  if (auto* const bucket = std::get_if<TokenBucket>(&shared)) bucket->starts_empty = false;
  return shared;
}

// The state of a counter without charges, in the window that is open.
CounterState Uncharged(const FallbackCharges::Subject& subject, const Limit& shared, Time now) {
  CounterState state;
  Open(shared, state, now);
  if (auto* const window = std::get_if<FixedWindow::State>(&state); window && subject.seen) {
    *window = std::get<FixedWindow::State>(subject.seen->snapshot);
    window->count = 0;
  }
  return state;
}

}  // namespace

bool FallbackCharges::Add(const Subject& subject, std::int64_t cost, Time now) {
  Shard& shard = ShardOf(subject.key);
  const MutexLock lock(shard.mutex);
  auto found = shard.entries.find(subject.key);
  if (found == shard.entries.end()) {
    if (shard.entries.size() >= kMaxCounters / kShards) return false;
    const Limit shared = SharedOf(subject);
    Charge fresh{.key = std::string(subject.key),
                 .limit = subject.limit,
                 .shared = shared,
                 .charged = Uncharged(subject, shared, now)};
    found = shard.entries.emplace(subject.key, std::move(fresh)).first;
    size_.fetch_add(1, std::memory_order_relaxed);
  }
  AddTo(found->second, cost, now);
  return true;
}

std::int64_t FallbackCharges::Find(std::string_view key, Time now) const {
  const Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end()) return 0;
  CounterState charged = found->second.charged;
  Advance(found->second.shared, charged, now);
  return Used(found->second.shared, charged);
}

std::vector<FallbackCharges::Charge> FallbackCharges::Take(std::size_t most, Time now) {
  std::vector<Charge> taken;
  const std::size_t first = next_shard_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kShards && taken.size() < most && size() > 0; ++i) {
    Shard& shard = shards_[(first + i) % kShards];
    const MutexLock lock(shard.mutex);
    while (taken.size() < most && !shard.entries.empty()) {
      Charge charge = std::move(shard.entries.extract(shard.entries.begin()).mapped());
      size_.fetch_sub(1, std::memory_order_relaxed);
      Advance(charge.shared, charge.charged, now);
      charge.cost = Used(charge.shared, charge.charged);
      if (charge.cost > 0) taken.push_back(std::move(charge));
    }
  }
  return taken;
}

void FallbackCharges::PutBack(Charge charge, Time now) {
  Shard& shard = ShardOf(charge.key);
  const MutexLock lock(shard.mutex);
  const std::string key = charge.key;
  const std::int64_t cost = charge.cost;
  const auto [at, absent] = shard.entries.try_emplace(key, std::move(charge));
  if (absent) {
    size_.fetch_add(1, std::memory_order_relaxed);
  } else {
    AddTo(at->second, cost, now);
  }
}

void FallbackCharges::Forget(std::string_view key) {
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  if (const auto found = shard.entries.find(key); found != shard.entries.end()) {
    shard.entries.erase(found);
    size_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace sluice
