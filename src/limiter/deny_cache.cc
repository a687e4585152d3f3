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

// Whether a denial of `known` implies a denial of `asked`, which is at least as large.
bool Covers(const Demand& known, const Demand& asked) {
  // Whether a counter is beyond its limit is only learned from charges.
  if (asked.mode == Mode::kCharge && known.mode != Mode::kCharge) return false;
  // Without max_wait the queue bounds the wait, which is not comparable with any other wait.
  if (known.max_wait.has_value() != asked.max_wait.has_value()) return false;
  if (known.only_delays != asked.only_delays) return false;
  return asked.cost >= known.cost && asked.max_wait <= known.max_wait;
}

}  // namespace

bool DenyCache::MayLearn(const Limit& limit, Mode mode) {
  const auto* const bucket = std::get_if<TokenBucket>(&limit);
  const bool may_be_new = bucket != nullptr && bucket->starts_empty && mode == Mode::kPeek;
  return !may_be_new && !std::holds_alternative<Concurrency>(limit);
}

bool DenyCache::MayLearnCharge(const Limit& limit) {
  return std::holds_alternative<FixedWindow>(limit);
}

SteadyTime DenyCache::Entry::expires() const {
  return denial.asked + std::min(denial.verdict.retry_after, kMaxAge);
}

bool DenyCache::Entry::ages(SteadyTime now) const {
  return denial.verdict.retry_after > kMaxAge && now >= expires() - kRefreshBefore;
}

void DenyCache::Learn(std::string_view key, const Limit& limit, const Denial& denial) {
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

std::optional<DenyCache::Answer> DenyCache::Find(std::string_view key, const Limit& limit,
                                                 const Demand& demand, SteadyTime now) const {
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
  if (demand.cost > MostAtOnce(limit)) {
    answer.verdict.retry_after = Verdict::kNever;
  } else {
    answer.verdict.retry_after = Left(answer.verdict.retry_after, passed);
  }
  return answer;
}

// A sweep visits every entry, so it runs rarely; in between, any entry is evicted.
void DenyCache::MakeRoom(Shard& shard, SteadyTime now) {
  constexpr std::size_t kMost = kMaxEntries / kShards;
  if (shard.entries.size() >= kMost && shard.next_sweep <= now) {
    std::erase_if(shard.entries, [&](const auto& entry) { return entry.second.expires() <= now; });
    shard.next_sweep = now + kMaxAge;
  }
  if (shard.entries.size() >= kMost) shard.entries.erase(shard.entries.begin());
}

}  // namespace sluice
