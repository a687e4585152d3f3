#include "limiter/recent_states.h"

#include <sys/mman.h>

#include <mutex>
#include <new>

#include "core/algorithm/algorithm.h"

namespace sluice {
static_assert(sizeof(SeenState) + sizeof(Hash128) == 64, "an entry is one cache line");

void RecentStates::FreeMemory::operator()(Group* groups) const {
  munmap(groups, kGroups * sizeof(Group));
}

// Fresh pages are zero, which means empty, and use no memory until written.
RecentStates::RecentStates()
    : groups_([] {
        void* const pages = mmap(nullptr, kGroups * sizeof(Group), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) throw std::bad_alloc();
        madvise(pages, kGroups * sizeof(Group), MADV_HUGEPAGE);
        return static_cast<Group*>(pages);
      }()) {}

std::size_t RecentStates::GroupOf(const Hash128& key) {
  return static_cast<std::size_t>(MultiplyWide(key.high, kGroups).high);
}

void RecentStates::Prefetch(const HashedKey& key) const {
  const Hash128& hash = key.wide_hash();
  __builtin_prefetch(&groups_[GroupOf(hash)][hash.low % kWays], /*rw=*/1);
}

void RecentStates::Learn(const HashedKey& key, const SeenState& seen) {
  Put({.key = key.wide_hash(), .seen = seen});
}

void RecentStates::Forget(const HashedKey& key, Time at) {
  Put({.key = key.wide_hash(), .seen = {.snapshot = {}, .reset_at = kWasReset, .at = at}});
}

void RecentStates::Put(const Entry& put) {
  const Hash128& hash = put.key;
  const std::size_t number = GroupOf(hash);
  Group& group = groups_[number];
  const std::lock_guard lock(locks_[number % kLocks]);
  const auto worth = [&](const Entry& entry) {
    const bool counts_nothing = entry.seen.reset_at <= put.seen.at;
    return counts_nothing ? Time::min() : entry.seen.at;
  };
  Entry* replaced = nullptr;
  // The order of probing depends on the key, so most entries are found at the first probe.
  for (std::size_t i = 0; i < kWays; ++i) {
    Entry& entry = group[(hash.low + i) % kWays];
    if (entry.key == hash) {
      const Time at = put.seen.at;
      const bool older = at < entry.seen.at && !ClockWasReplaced(entry.seen.at, at);
      if (!older) entry = put;
      return;
    }
    if (replaced == nullptr || worth(entry) < worth(*replaced)) replaced = &entry;
  }
  *replaced = put;
}

std::optional<SeenState> RecentStates::Find(const HashedKey& key) const {
  const Hash128& hash = key.wide_hash();
  const std::size_t number = GroupOf(hash);
  const std::lock_guard lock(locks_[number % kLocks]);
  for (const Entry& entry : groups_[number]) {
    if (entry.key == hash && entry.seen.reset_at != kWasReset) return entry.seen;
  }
  return std::nullopt;
}

}  // namespace sluice
