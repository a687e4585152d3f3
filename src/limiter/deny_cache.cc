#include "limiter/deny_cache.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

Duration Since(SteadyTime from, SteadyTime now) { return std::chrono::floor<Duration>(now - from); }

// The rest of `duration` after `passed`.
Duration Left(Duration duration, Duration passed) {
  return std::max(duration - passed, Duration::zero());
}

// Whether a counter that denied `known` also denies `asked`.
bool Covers(const CounterDemand& known, const CounterDemand& asked) {
  // Only the answer to a charge shows whether the counter is beyond its limit.
  if (asked.mode == Mode::kCharge && known.mode != Mode::kCharge) return false;
  // Without max_wait, the limit's queue bounds the wait. That bound cannot be compared with a
  // max_wait.
  if (known.max_wait.has_value() != asked.max_wait.has_value()) return false;
  if (known.only_delays != asked.only_delays) return false;
  return asked.units >= known.units && asked.max_wait <= known.max_wait;
}

// Whether some limit without a known denial can never admit the check, because the check takes more
// units than the limit can hold. Then no retry can succeed, although the known denials suggest a
// retry.
bool AnotherLimitNeverAdmits(const StoreCheck& check, std::span<const LimitAnswer> limits) {
  for (std::size_t i = 0; i < check.counters.size() && check.counters[i].group == 0; ++i) {
    if (limits[i].source == Source::kDenyCache) continue;
    if (check.counters[i].units > MostAtOnce(*check.counters[i].limit)) return true;
  }
  return false;
}

// The denial by `counter`, in the form that applies to later checks. Empty if it applies to none.
std::optional<DenyCache::Denial> LastingDenial(const DenyCache::Asked& asked,
                                               const CounterCheck& counter, SteadyTime answered) {
  if (!DenialLasts(*counter.limit, asked.check.demand.mode)) return std::nullopt;
  DenyCache::Denial denial{.demand = asked.check.DemandOf(counter),
                           .verdict = counter.verdict,
                           .decided_at = counter.decided_at,
                           .asked = asked.at,
                           .answered = answered};
  if (denial.demand.mode == Mode::kCharge) {
    // The check was charged although it was denied. Until the counter resets, the counter denies
    // every check that takes units.
    if (!asked.charge_decides) return std::nullopt;
    denial.demand = {{.mode = Mode::kCharge}, 1};
    denial.verdict.retry_after = denial.verdict.reset_after;
  }
  return denial;
}

}  // namespace

bool DenyCache::Denies(const Asked& asked, CheckAnswer& answer) const {
  const Demand& demand = asked.check.demand;
  const bool charges = demand.mode == Mode::kCharge && asked.charge_decides;
  if (!charges && !demand.consumes_or_peeks()) return false;
  if (!MarkKnownDenials(asked, answer)) return false;
  if (AnotherLimitNeverAdmits(asked.check, answer.limits)) {
    for (LimitAnswer& limit : answer.limits) limit.source = Source::kStore;
    answer.decided_at = Time();
    return false;
  }
  std::erase_if(answer.limits, [](const auto& it) { return it.source != Source::kDenyCache; });
  return true;
}

// Returns whether any denial is known.
bool DenyCache::MarkKnownDenials(const Asked& asked, CheckAnswer& answer) const {
  const auto& counters = asked.check.counters;
  bool any = false;
  for (std::size_t i = 0; i < counters.size() && counters[i].group == 0; ++i) {
    LimitAnswer& limit = answer.limits[i];
    if (!limit.rule->rule.deny_cache) continue;
    const CounterDemand demand = asked.check.DemandOf(counters[i]);
    const auto found = Find(counters[i].key, *counters[i].limit, demand, asked.at);
    if (!found) continue;
    limit.source = Source::kDenyCache;
    limit.verdict = found->verdict;
    answer.decided_at = found->decided_at;
    any = true;
  }
  return any;
}

void DenyCache::LearnFrom(const Asked& asked, SteadyTime answered,
                          std::span<const LimitAnswer> limits) {
  const auto& counters = asked.check.counters;
  const bool charges = asked.check.demand.mode == Mode::kCharge;
  if (!asked.check.demand.consumes_or_peeks() && !charges) return;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const CounterCheck& counter = counters[i];
    if (counter.charged || charges) DropOther(counter.key, *counter.limit);
    if (counter.group > 0 || counter.failure || counter.verdict.admitted) continue;
    if (!limits[i].rule->rule.deny_cache) continue;
    if (const auto denial = LastingDenial(asked, counter, answered)) {
      Learn(counter.key, *counter.limit, *denial);
    }
  }
}

// The greatest age of an entry. Other servers may return units that they have prefetched, so an
// entry of a limit with `prefetch` lives no longer than a grant.
Duration DenyCache::Entry::most() const {
  const Duration life = GrantLife(limit);
  return life > Duration::zero() ? std::min(life, kMaxAge) : kMaxAge;
}

SteadyTime DenyCache::Entry::expires() const {
  return denial.asked + std::min(denial.verdict.retry_after, most());
}

bool DenyCache::Entry::ages(SteadyTime now) const {
  return denial.verdict.retry_after > most() && now >= expires() - most() / kRefreshPart;
}

void DenyCache::Learn(const HashedKey& key, const Limit& limit, const Denial& denial) {
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  auto found = shard.entries.find(key);
  if (found == shard.entries.end()) {
    MakeRoom(shard, denial.asked);
    found = shard.entries.emplace(key, Entry{}).first;
  }
  found->second = {limit, denial};
  shard.size.store(shard.entries.size(), std::memory_order_relaxed);
}

void DenyCache::DropOther(const HashedKey& key, const Limit& limit) {
  Shard& shard = ShardOf(key);
  if (shard.size.load(std::memory_order_relaxed) == 0 || !SettlesAsStored(limit)) return;
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end() || found->second.limit == limit) return;
  shard.entries.erase(found);
  shard.size.store(shard.entries.size(), std::memory_order_relaxed);
}

std::optional<DenyCache::Answer> DenyCache::Find(const HashedKey& key, const Limit& limit,
                                                 const CounterDemand& demand,
                                                 SteadyTime now) const {
  const Shard& shard = ShardOf(key);
  if (shard.size.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(key);
  if (found == shard.entries.end()) return std::nullopt;
  const Entry& entry = found->second;
  const Denial& denial = entry.denial;
  if (entry.expires() <= now || entry.limit != limit || !Covers(denial.demand, demand)) {
    return std::nullopt;
  }
  if (clearings_.HasSince(key, denial.asked)) return std::nullopt;
  if (entry.ages(now) && !std::exchange(entry.refreshing, true)) return std::nullopt;
  const Duration passed = Since(denial.answered, now);
  Answer answer{.verdict = denial.verdict, .decided_at = denial.decided_at + passed};
  answer.verdict.reset_after = Left(answer.verdict.reset_after, passed);
  const bool never = demand.units > MostAtOnce(limit);
  answer.verdict.retry_after = never ? Verdict::kNever : Left(answer.verdict.retry_after, passed);
  return answer;
}

// A sweep visits every entry, so it runs rarely. If the shard is still full, an arbitrary entry is
// evicted.
void DenyCache::MakeRoom(Shard& shard, SteadyTime now) {
  constexpr std::size_t kMost = kMaxEntries / kShards;
  if (shard.entries.size() >= kMost && shard.next_sweep <= now) {
    std::erase_if(shard.entries, [&](const auto& entry) { return entry.second.expires() <= now; });
    shard.next_sweep = now + kMaxAge;
  }
  if (shard.entries.size() >= kMost) shard.entries.erase(shard.entries.begin());
}

}  // namespace sluice
