#include "limiter/top_keys.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace sluice {

void TopKeys::Restart() {
  const MutexLock lock(control_);
  period_.store(++periods_, std::memory_order_relaxed);
}

void TopKeys::Stop() {
  const MutexLock lock(control_);
  period_.store(0, std::memory_order_relaxed);
  for (Part& part : parts_) {
    const MutexLock part_lock(part.mutex);
    part.sketches.reset();
    part.period = 0;
  }
}

// The first check of a new period empties its thread's part. A check tests under the lock whether
// counting has stopped, so nothing is kept after Stop.
void TopKeys::NoteWatched(const StoreCheck& check, std::span<const LimitAnswer> limits,
                          bool taken) {
  const Mode mode = check.demand.mode;
  if (mode != Mode::kConsume && mode != Mode::kCharge) return;
  Part& part = parts_[ThreadSlot()];
  const MutexLock lock(part.mutex);
  const std::uint64_t period = period_.load(std::memory_order_relaxed);
  if (period == 0) return;
  if (std::exchange(part.period, period) != period) part.sketches = std::make_unique<Sketches>();
  for (const LimitAnswer& limit : limits) {
    const CountedKey key{.key = check.counters[limit.counter].key,
                         .domain = limit.rule->domain,
                         .rule = limit.rule->rule.name,
                         .limit = limit.index};
    if (limit.denies()) part.sketches->denied.Count(key);
    if (taken && (limit.verdict.admitted || mode == Mode::kCharge)) part.sketches->used.Count(key);
  }
}

TopKeys::Keys TopKeys::Read(std::size_t most) const {
  return {.denied = Merge(&Sketches::denied, most), .used = Merge(&Sketches::used, most)};
}

// If a full sketch has no entry for a key, its thread may nevertheless have counted the key, about
// as often as the least frequent entry.
std::vector<KeySketch::Entry> TopKeys::Merge(KeySketch Sketches::*kind, std::size_t most) const {
  std::vector<KeySketch::Entry> merged;
  std::unordered_map<std::string, std::size_t> index;
  std::uint64_t missed = 0;
  const std::uint64_t period = period_.load(std::memory_order_relaxed);
  for (const Part& part : parts_) {
    std::vector<KeySketch::Entry> entries;
    std::uint64_t part_missed = 0;
    {
      const MutexLock lock(part.mutex);
      if (part.sketches == nullptr || part.period != period) continue;
      entries = ((*part.sketches).*kind).entries();
      part_missed = ((*part.sketches).*kind).most_missed();
    }
    missed += part_missed;
    for (KeySketch::Entry& entry : entries) {
      entry.error -= part_missed;  // a part with an entry for the key has not missed the key
      const auto [known, is_new] = index.try_emplace(entry.key, merged.size());
      if (is_new) {
        merged.push_back(std::move(entry));
      } else {
        merged[known->second].count += entry.count;
        merged[known->second].error += entry.error;
      }
    }
  }
  for (KeySketch::Entry& entry : merged) entry.error += missed;
  const std::size_t kept = std::min(most, merged.size());
  const auto end = merged.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(merged.begin(), end, merged.end(),
                    [](const auto& a, const auto& b) { return a.count > b.count; });
  merged.erase(end, merged.end());
  return merged;
}

}  // namespace sluice
