#include "limiter/pending_leases.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

SteadyTime ForgottenAt(const PendingLeases::Change& lease) {
  return lease.units ? lease.expires + kSettlesFor : lease.expires;
}

}  // namespace

void PendingLeases::Granted(Change lease) {
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxLeases) EraseExpired(SteadyNow());
  if (entries_.size() >= kMaxLeases) return;
  Add(std::move(lease), /*reported=*/false);
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

std::optional<PendingLeases::Change> PendingLeases::Withdraw(const LeaseId& id) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  const bool may = found != entries_.end() && !found->second.reported;
  if (!may || !found->second.lease.units || found->second.lease.released) return std::nullopt;
  Change lease = std::move(found->second.lease);
  Erase(found);
  return lease;
}

bool PendingLeases::Settle(const LeaseId& id, const std::vector<std::int64_t>& used) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  Change& lease = found->second.lease;
  if (std::exchange(lease.released, true)) return true;  // the first settlement counts
  for (std::size_t i = 0; i < lease.held.size(); ++i) lease.held[i].used = used[i];
  Queue(found->second);
  return true;
}

void PendingLeases::Leave(std::string_view key) {
  const MutexLock lock(mutex_);
  for (auto& [id, entry] : entries_) {
    for (Held& held : entry.lease.held) {
      if (entry.reported || !held.added || held.key != key) continue;
      held.count = sluice::Held::kNothing;
      held.added.reset();
    }
  }
}

void PendingLeases::Forget(std::string_view key) {
  const MutexLock lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    Change& lease = at->second.lease;
    if (lease.units) {
      for (Held& held : lease.held) {
        if (held.key == key) held.count = 0;
      }
    } else {
      std::erase_if(lease.held, [&](const Held& held) { return held.key == key; });
    }
    const bool holds_some =
        std::ranges::any_of(lease.held, [](const Held& held) { return held.count > 0; });
    at = holds_some ? std::next(at) : Erase(at);
  }
}

std::vector<PendingLeases::Change> PendingLeases::Take(
    std::size_t most, SteadyTime now, const std::function<bool(std::string_view)>& is_owed) {
  std::vector<Change> taken;
  std::vector<LeaseId> again;
  const MutexLock lock(mutex_);
  EraseExpired(now);
  for (std::size_t left = queue_.size(); left > 0 && taken.size() < most; --left) {
    const auto found = entries_.find(queue_.begin()->second);
    queue_.erase(queue_.begin());
    Entry& entry = found->second;
    entry.place = 0;
    const bool units = entry.lease.units;
    const bool pauses = entry.pause > 0 && entry.pause-- > 0;
    const bool waits =
        units && is_owed && std::ranges::any_of(entry.lease.held, is_owed, &Held::key);
    if (pauses || waits) {
      again.push_back(found->first);
      continue;
    }
    taken.push_back(entry.lease);
    taken.back().renewed = units && entry.entered;
    const bool enters_first = units && entry.lease.released && !entry.entered;
    entry.reported = entry.entered = true;
    if (enters_first) {
      taken.back().released = false;
      again.push_back(found->first);
    } else if (entry.lease.released) {
      Erase(found);
    }
  }
  for (const LeaseId& id : again) Queue(entries_.find(id)->second);
  return taken;
}

void PendingLeases::PutBack(const Change& change, int pause) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(change.id);
  if (found == entries_.end() && !change.released) return;  // forgotten meanwhile
  if (found == entries_.end()) {
    Add(change, /*reported=*/true);
  } else {
    if (!change.released && !change.renewed) found->second.entered = false;
    Queue(found->second);
  }
  entries_[change.id].pause = pause;
}

void PendingLeases::Add(Change lease, bool reported) {
  const LeaseId id = lease.id;
  Entry& entry = entries_[id];
  entry.expiry = ForgottenAt(lease);
  entry.reported = entry.entered = reported;
  entry.lease = std::move(lease);
  expiries_.emplace(entry.expiry, id);
  Queue(entry);
}

void PendingLeases::Queue(Entry& entry) {
  if (entry.place != 0) return;
  if (queue_.empty() && on_first) on_first();
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
    if (ForgottenAt(entry.lease) <= now) {
      Erase(found);
      continue;
    }
    expiries_.erase(expiries_.begin());
    entry.expiry = ForgottenAt(entry.lease);
    expiries_.emplace(entry.expiry, found->first);
  }
}

}  // namespace sluice
