#include "limiter/fallback_leases.h"

#include <algorithm>
#include <iterator>

namespace sluice {

void FallbackLeases::Granted(const LeaseId& id, std::span<const std::string_view> keys,
                             std::int64_t slots, SteadyTime expires) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxLeases) return;
  Add({.id = id, .keys = {keys.begin(), keys.end()}, .slots = slots, .expires = expires},
      /*told=*/false);
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
    Erase(found);
    return;
  }
  found->second.lease.released = true;
  Queue(found->second);
}

void FallbackLeases::Forget(std::string_view key) {
  const MutexLock lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto& keys = at->second.lease.keys;
    at = std::find(keys.begin(), keys.end(), key) != keys.end() ? Erase(at) : std::next(at);
  }
}

std::vector<FallbackLeases::Change> FallbackLeases::Take(std::size_t most, SteadyTime now) {
  std::vector<Change> taken;
  const MutexLock lock(mutex_);
  EraseExpired(now);
  while (taken.size() < most && !queue_.empty()) {
    const auto found = entries_.find(queue_.begin()->second);
    queue_.erase(queue_.begin());
    Entry& entry = found->second;
    entry.place = 0;
    entry.told = true;
    taken.push_back(entry.lease);
    if (entry.lease.released) Erase(found);
  }
  return taken;
}

void FallbackLeases::PutBack(const Change& change) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(change.id);
  if (found != entries_.end()) return Queue(found->second);
  if (!change.released) return;  // forgotten meanwhile
  Add(change, /*told=*/true);
}

void FallbackLeases::Add(Change lease, bool told) {
  const LeaseId id = lease.id;
  Entry& entry = entries_[id];
  entry.expiry = lease.expires;
  entry.told = told;
  entry.lease = std::move(lease);
  expiries_.emplace(entry.expiry, id);
  Queue(entry);
}

void FallbackLeases::Queue(Entry& entry) {
  if (entry.place != 0) return;
  entry.place = next_place_++;
  queue_.emplace(entry.place, entry.lease.id);
}

FallbackLeases::Entries::iterator FallbackLeases::Erase(Entries::iterator at) {
  const auto& [id, entry] = *at;
  expiries_.erase({entry.expiry, id});
  queue_.erase(entry.place);
  return entries_.erase(at);
}

void FallbackLeases::EraseExpired(SteadyTime now) {
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    const auto found = entries_.find(expiries_.begin()->second);
    Entry& entry = found->second;
    if (entry.lease.expires <= now) {
      Erase(found);
      continue;
    }
    expiries_.erase(expiries_.begin());
    entry.expiry = entry.lease.expires;
    expiries_.emplace(entry.expiry, found->first);
  }
}

}  // namespace sluice
