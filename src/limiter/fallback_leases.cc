#include "limiter/fallback_leases.h"

#include <algorithm>

namespace sluice {

void FallbackLeases::Granted(const LeaseId& id, std::span<const std::string_view> keys,
                             std::int64_t slots, SteadyTime expires) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxLeases) return;
  Entry& entry = entries_[id];
  entry.lease = {.id = id, .keys = {keys.begin(), keys.end()}, .slots = slots, .expires = expires};
  expiries_.emplace(expires, id);
  Queue(entry);
}

void FallbackLeases::Renewed(const LeaseId& id, SteadyTime expires) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.lease.released) return;
  found->second.lease.expires = expires;
  Queue(found->second);
}

void FallbackLeases::Released(const LeaseId& id) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (!found->second.told) {
    entries_.erase(found);
    return;
  }
  found->second.lease.released = true;
  Queue(found->second);
}

void FallbackLeases::Forget(std::string_view key) {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) {
    const auto& keys = entry.second.lease.keys;
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  });
}

std::vector<FallbackLeases::Change> FallbackLeases::Take(std::size_t most, SteadyTime now) {
  std::vector<Change> taken;
  const MutexLock lock(mutex_);
  EraseExpired(now);
  while (taken.size() < most && !queue_.empty()) {
    const auto found = entries_.find(queue_.front());
    queue_.pop_front();
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    entry.queued = false;
    entry.told = true;
    taken.push_back(entry.lease);
    if (entry.lease.released) entries_.erase(found);
  }
  return taken;
}

void FallbackLeases::PutBack(const Change& change) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(change.id);
  if (found != entries_.end()) return Queue(found->second);
  if (!change.released) return;  // forgotten meanwhile
  Entry& entry = entries_[change.id];
  entry = {.lease = change, .told = true};
  expiries_.emplace(change.expires, change.id);
  Queue(entry);
}

void FallbackLeases::Queue(Entry& entry) {
  if (!std::exchange(entry.queued, true)) queue_.push_back(entry.lease.id);
}

void FallbackLeases::EraseExpired(SteadyTime now) {
  while (!expiries_.empty() && expiries_.top().first <= now) {
    const LeaseId id = expiries_.top().second;
    expiries_.pop();
    const auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    if (found->second.lease.expires <= now) {
      entries_.erase(found);
    } else {
      expiries_.emplace(found->second.lease.expires, id);
    }
  }
}

}  // namespace sluice
