#include "limiter/grant_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice {
namespace {

Counter& GrantUnits(MetricsRegistry& metrics, const char* fate) {
  return metrics.CounterFor("sluice_grant_units_total",
                            "Units that this server took in advance: granted; returned (not used); "
                            "or ended (neither used nor returned in time).",
                            {{"fate", fate}});
}

bool Prefetches(const CounterCheck& counter) {
  return GrantLife(*counter.limit) > Duration::zero();
}

bool TakesLease(const StoreCheck& check) { return check.lease || check.leases_units; }

// Whether the check takes a large part of what the counter can hold. While servers hold grants, the
// counter may never have enough units for such a check, so the check has to wait until these grants
// are returned or end.
bool IsLarge(const CounterCheck& counter) {
  return counter.units > MostAtOnce(*counter.limit) / GrantsOut::kPartOfLevel;
}

}  // namespace

// Holds the locks of all shards with counters of a check. Locks in ascending order, which prevents
// deadlock. If a check locked only one shard at a time, a grant could be returned after the check
// has taken units from the grant. If another counter then had no usable grant, the check could not
// put these units back.
class GrantTable::ShardLocks {
 public:
  ShardLocks(GrantTable& table, const StoreCheck& check) SLUICE_NO_THREAD_SAFETY_ANALYSIS
      : table_(table) {
    for (const CounterCheck& counter : check.counters) held_ |= 1ULL << IndexOf(counter.key);
    for (std::uint64_t rest = held_; rest != 0; rest &= rest - 1) Lowest(rest).lock();
  }
  ~ShardLocks() SLUICE_NO_THREAD_SAFETY_ANALYSIS {
    for (std::uint64_t rest = held_; rest != 0; rest &= rest - 1) Lowest(rest).unlock();
  }
  ShardLocks(const ShardLocks&) = delete;
  ShardLocks& operator=(const ShardLocks&) = delete;

 private:
  static_assert(kShards == 64);
  Mutex& Lowest(std::uint64_t shards) {
    return table_.shards_[static_cast<std::size_t>(std::countr_zero(shards))].mutex;
  }

  GrantTable& table_;
  std::uint64_t held_ = 0;  // a bit per shard
};

// Returns a grant, or asks for the next grant. Owns itself.
class GrantTable::GrantCall final : public StoreCheck {
 public:
  GrantCall(GrantTable& table, std::string_view key, const Limit& limit,
            const GrantReturn& returned, const GrantWish& wanted)
      : table_(table), key_(key), limit_(limit) {
    counters.push_back(
        {.key = key_, .limit = &limit_, .units = 0, .returned = returned, .wanted = wanted});
    demand.mode = wanted.units > 0 ? Mode::kConsume : Mode::kPeek;
    concerns_grants = true;
    const Duration useful = wanted.units > 0 ? wanted.life : Duration(std::chrono::seconds(1));
    deadline = last_deadline = SteadyNow() + useful;
  }

 private:
  void OnDecided() override {
    CounterCheck& counter = counters.front();
    // Learn is not called if a grant is only returned. If the return failed, Learn would hold the
    // grant again, and the next return would be due at once.
    if (counter.wanted.units > 0) {
      table_.Learn(counter);
    } else {
      table_.CountReturn(counter);
      table_.clearings_.Note(key_, SteadyNow());
    }
    delete this;
  }

  GrantTable& table_;
  const std::string key_;
  const Limit limit_;
};

GrantTable::GrantTable(Store& store, Clearings& clearings, MetricsRegistry& metrics)
    : store_(store),
      clearings_(clearings),
      grants_(metrics.CounterFor("sluice_grants_total", "Grants that this server got.")),
      granted_(GrantUnits(metrics, "granted")),
      returned_(GrantUnits(metrics, "returned")),
      ended_(GrantUnits(metrics, "ended")) {}

bool GrantTable::MayConcern(const StoreCheck& check) {
  return check.demand.consumes_or_peeks() && std::ranges::any_of(check.counters, Prefetches);
}

bool GrantTable::Decides(StoreCheck& check) {
  if (held_.load(std::memory_order_relaxed) == 0 || check.demand.max_wait) return false;
  if (TakesLease(check)) return false;
  if (!Spend(check, BootNow())) return false;
  check.decided_at = Time();
  for (CounterCheck& counter : check.counters) {
    const CoalescedChecks checks{
        .demand = check.DemandOf(counter), .granted = 1, .now = counter.decided_at};
    CounterReport report;
    report.snapshot = counter.before;
    Answer(counter, report, checks, 0);
    counter.charged = false;  // not in the store
    check.decided_at = std::max(check.decided_at, counter.decided_at);
    const GrantWish next = std::exchange(counter.wanted, {});
    if (next.units > 0) Submit(counter.key, *counter.limit, {}, next);
  }
  check.admitted = true;
  return true;
}

// Takes the units of all counters, or of none, and sets `wanted` if a grant ends soon.
bool GrantTable::Spend(StoreCheck& check, BootTime now) {
  const bool takes = check.demand.mode == Mode::kConsume;
  const ShardLocks locks(*this, check);
  for (std::size_t i = 0; i < check.counters.size(); ++i) {
    CounterCheck& counter = check.counters[i];
    HeldGrant* const held = Find(counter.key);
    const bool usable = held != nullptr && IsCurrent(*held) && held->MayTake(counter.units, now) &&
                        held->limit == *counter.limit;
    if (!usable) {
      for (; takes && i > 0; --i) {
        const CounterCheck& taken = check.counters[i - 1];
        Find(taken.key)->Take(-taken.units);
      }
      return false;
    }
    counter.before = held->seen();
    counter.decided_at = held->decided_at();
    if (takes) held->Take(counter.units);
  }
  if (!takes) return true;
  for (CounterCheck& counter : check.counters) {
    HeldGrant& held = *Find(counter.key);
    if (held.EndsSoon(now)) counter.wanted = held.Ask(counter.units, now);
  }
  return true;
}

HeldGrant* GrantTable::Find(const HashedKey& key) {
  Entries& entries = ShardOf(key).entries;
  const auto found = entries.find(key);
  return found == entries.end() ? nullptr : &found->second;
}

void GrantTable::Prepare(StoreCheck& check) {
  const BootTime now = BootNow();
  const bool asks = !closed_ && check.demand.mode == Mode::kConsume &&
                    std::ranges::all_of(check.counters, Prefetches);
  for (CounterCheck& counter : check.counters) {
    if (!Prefetches(counter)) continue;
    if (TakesLease(check)) {
      ReturnHeld(counter, now);
      continue;
    }
    Prepare(counter, asks, now);
    check.concerns_grants |=
        counter.returned.granted > 0 || counter.wanted.units > 0 || IsLarge(counter);
  }
}

// The store decides the return before the check, because both take the same path, in this order.
void GrantTable::ReturnHeld(const CounterCheck& counter, BootTime now) {
  GrantReturn returned;
  {
    Shard& shard = ShardOf(counter.key);
    const MutexLock lock(shard.mutex);
    const auto found = shard.entries.find(counter.key);
    if (found == shard.entries.end() || !found->second.holds()) return;
    returned = TakeOut(found->second, now);
  }
  Submit(counter.key, *counter.limit, returned);
}

// A counter without an entry gets one if it is checked often enough. Otherwise, the check is only
// counted.
void GrantTable::Prepare(CounterCheck& counter, bool asks, BootTime now) {
  const Duration life = GrantLife(*counter.limit);
  Shard& shard = ShardOf(counter.key);
  const MutexLock lock(shard.mutex);
  auto found = shard.entries.find(counter.key);
  if (found == shard.entries.end()) {
    const bool has_room = shard.entries.size() < kMaxEntries / kShards;
    if (!asks || !counts_.IsOften(counter.key, life, now) || !has_room) return;
    found = shard.entries.emplace(counter.key, HeldGrant(*counter.limit)).first;
    if (entries_.fetch_add(1) == 0 && on_use_) on_use_();
  }
  HeldGrant& held = found->second;
  if (held.holds()) counter.returned = TakeOut(held, now);
  if (asks) {
    held.limit = *counter.limit;
    held.era = era_;
    counter.wanted = held.Ask(counter.units, now);
  }
  NoteDue(shard, held);
}

GrantReturn GrantTable::TakeOut(HeldGrant& held, BootTime now) {
  --held_;
  return held.TakeOut(now);
}

// A return is in time if the store decided it before the grant's generation ended.
void GrantTable::CountReturn(const CounterCheck& counter) {
  const GrantReturn& returned = counter.returned;
  const bool in_time = !counter.failure && counter.decided_at < returned.generation;
  (in_time ? returned_ : ended_).Increment(static_cast<std::uint64_t>(returned.unused));
}

void GrantTable::Learn(StoreCheck& check) {
  if (!std::exchange(check.concerns_grants, false)) return;
  for (CounterCheck& counter : check.counters) Learn(counter);
}

void GrantTable::Learn(CounterCheck& counter) {
  const bool is_kept = Keep(counter);
  if (!counter.failure || !is_kept) CountReturn(counter);
  const GrantReturn returned = std::exchange(counter.returned, {});
  const Grant grant = std::exchange(counter.grant, {});
  counter.wanted = {};
  if (counter.failure) return;
  granted_.Increment(static_cast<std::uint64_t>(grant.units));
  grants_.Increment(grant.units > 0 ? 1 : 0);
  if (returned.granted > 0 || grant.units > 0) clearings_.Note(counter.key, SteadyNow());
  // If `waits`, the units fit only after grants have been returned or have ended.
  const GrantsOut& out = counter.grants_out;
  Verdict& verdict = counter.verdict;
  const bool waits = out.any() && counter.units > MostAtOnce(*counter.limit) - out.units();
  if (waits && verdict.retry_after != Verdict::kNever) {
    verdict.retry_after = std::max(verdict.retry_after, out.last_end() - counter.decided_at);
  }
  if (grant.units > 0 && !is_kept) {
    const GrantReturn all{grant.generation, grant.units, grant.units};
    Submit(counter.key, *counter.limit, all);
  }
}

// If a grant arrived, holds it in place of the earlier grant. If the check could not return a
// grant, holds that grant again. Returns false if it holds neither of these grants.
bool GrantTable::Keep(const CounterCheck& counter) {
  GrantReturn earlier;
  bool keeps = false;
  {
    Shard& shard = ShardOf(counter.key);
    const MutexLock lock(shard.mutex);
    const auto found = shard.entries.find(counter.key);
    if (found == shard.entries.end()) return false;
    HeldGrant& held = found->second;
    if (held.holds() && counter.grant.units > 0) earlier = TakeOut(held, BootNow());
    keeps = held.Learn(counter, IsCurrent(held), earlier.unused);
    if (keeps) ++held_;
    NoteDue(shard, held);
  }
  if (earlier.granted > 0) Submit(counter.key, *counter.limit, earlier);
  return keeps;
}

void GrantTable::Submit(std::string_view key, const Limit& limit, const GrantReturn& returned,
                        const GrantWish& wanted) {
  store_.Submit(*new GrantCall(*this, key, limit, returned, wanted));
}

void GrantTable::NoteDue(Shard& shard, const HeldGrant& held) {
  BootTime due = held.forgotten();
  if (held.holds()) due = held.end() - kReturnEvery;
  if (due < shard.due.load(std::memory_order_relaxed)) shard.due = due;
}

void GrantTable::ReturnDue() {
  const BootTime now = BootNow();
  for (Shard& shard : shards_) {
    if (shard.due.load(std::memory_order_relaxed) <= now) ReturnDue(shard, now);
  }
}

void GrantTable::ReturnDue(Shard& shard, BootTime now) {
  std::vector<StoreCheck*> all;
  {
    const MutexLock lock(shard.mutex);
    shard.due = BootTime::max();
    for (auto at = shard.entries.begin(); at != shard.entries.end();) {
      const auto next = at++;
      auto& [key, held] = *next;
      const bool is_due = held.end() - kReturnEvery <= now || held.era != era_;
      if (held.holds() && is_due) {
        all.push_back(new GrantCall(*this, key, held.limit, TakeOut(held, now), {}));
      }
      if (held.forgotten() <= now) {
        shard.entries.erase(next);
        --entries_;
      } else {
        NoteDue(shard, held);
      }
    }
  }
  for (StoreCheck* const check : all) store_.Submit(*check);
}

void GrantTable::EndAll() {
  ++era_;
  for (Shard& shard : shards_) {
    if (shard.due.load() != BootTime::max()) shard.due = BootTime::min();
  }
}

void GrantTable::Close() {
  closed_ = true;
  EndAll();
}

// The entry stays, because it records that a grant may be on its way.
void GrantTable::Forget(const HashedKey& key) {
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end()) return;
  if (found->second.holds()) --held_;
  found->second.Forget();
}

}  // namespace sluice
