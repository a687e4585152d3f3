#include "limiter/pending_leases.h"

#include <iterator>
#include <utility>

namespace sluice {

void PendingLeases::Granted(const LeaseId& id, std::vector<Slots> slots, SteadyTime expires) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxLeases) return;
  Add({.id = id, .slots = std::move(slots), .expires = expires}, /*reported=*/false);
}

void PendingLeases::Renewed(const LeaseId& id, SteadyTime expires) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.lease.released) return;
  found->second.lease.expires = expires;
  Queue(found->second);
}

bool PendingLeases::Released(const LeaseId& id) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  if (!found->second.reported) {
    Erase(found);
    return true;
  }
  found->second.lease.released = true;
  Queue(found->second);
  return true;
}

void PendingLeases::Forget(std::string_view key) {
  const MutexLock lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    auto& slots = at->second.lease.slots;
    std::erase_if(slots, [&](const Slots& held) { return held.key == key; });
    at = slots.empty() ? Erase(at) : std::next(at);
  }
}

std::vector<PendingLeases::Change> PendingLeases::Take(std::size_t most, SteadyTime now) {
  std::vector<Change> taken;
  const MutexLock lock(mutex_);
  EraseExpired(now);
  while (taken.size() < most && !queue_.empty()) {
    const auto found = entries_.find(queue_.begin()->second);
    queue_.erase(queue_.begin());
    Entry& entry = found->second;
    entry.place = 0;
    entry.reported = true;
    taken.push_back(entry.lease);
    if (entry.lease.released) Erase(found);
  }
  return taken;
}

void PendingLeases::PutBack(const Change& change) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(change.id);
  if (found != entries_.end()) return Queue(found->second);
  if (!change.released) return;  // forgotten meanwhile
  Add(change, /*reported=*/true);
}

void PendingLeases::Add(Change lease, bool reported) {
  const LeaseId id = lease.id;
  Entry& entry = entries_[id];
  entry.expiry = lease.expires;
  entry.reported = reported;
  entry.lease = std::move(lease);
  expiries_.emplace(entry.expiry, id);
  Queue(entry);
}

void PendingLeases::Queue(Entry& entry) {
  if (entry.place != 0) return;
  entry.place = next_place_++;
  queue_.emplace(entry.place, entry.lease.id);
}

PendingLeases::Entries::iterator PendingLeases::Erase(Entries::iterator at) {
  const auto& [id, entry] = *at;
  expiries_.erase({entry.expiry, id});
  queue_.erase(entry.place);
  return entries_.erase(at);
}

void PendingLeases::EraseExpired(SteadyTime now) {
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
