#include "store/redis/check_queue.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "core/demand.h"
#include "store/redis/script_call.h"

namespace sluice::redis {
namespace {

// Whether checks like `check` may be coalesced. Rare modes are excluded.
bool MayCoalesce(const StoreCheck& check) {
  if (MayCoalesceCharge(check)) return true;
  if (check.leases_units || check.concerns_grants) return false;
  return check.demand.consumes_or_peeks() &&
         std::all_of(check.counters.begin(), check.counters.end(), [](const CounterCheck& counter) {
           return sluice::MayCoalesce(*counter.limit);
         });
}

// Equal checks have the same hash. The address of the limit is not hashed, because it differs in
// each run. Collisions affect which checks are coalesced, and the simulation must give the same
// schedule for the same seed.
std::size_t IdentityHash(const StoreCheck& check) {
  std::size_t hash = Hash(check.demand);
  for (const CounterCheck& counter : check.counters) {
    hash = CombineHash(hash, counter.key.hash());
    hash = CombineHash(hash, counter.group);
    hash = CombineHash(hash, static_cast<std::size_t>(counter.units));
  }
  return hash;
}

// Whether two checks have the same demand, counters, units and routing, so they may be coalesced.
// Limits are compared by address, which identifies them within one rule set.
bool Equal(const PendingCheck& a, const PendingCheck& b) {
  const auto& counters = a.check->counters;
  const auto& others = b.check->counters;
  return a.check->demand == b.check->demand && a.routing == b.routing &&
         std::equal(counters.begin(), counters.end(), others.begin(), others.end(),
                    [](const CounterCheck& x, const CounterCheck& y) {
                      return x.limit == y.limit && x.group == y.group && x.units == y.units &&
                             x.key == y.key;
                    });
}

}  // namespace

void CheckQueue::Add(PendingPtr pending) {
  const StoreCheck& check = *pending->check;
  Entry* entry = nullptr;
  if (MayCoalesce(check)) {
    const std::size_t hash = IdentityHash(check);
    entry = LatestEqual(*pending, hash);
    if (entry == nullptr) latest_[hash % kSlots] = {hash, next_number_};
  }
  if (entry == nullptr) {
    entry = &entries_.emplace_back();
    entry->number = next_number_++;
    ++live_entries_;
  }
  entry->checks.push_back(std::move(pending));
  if (check.in_order) NoteInOrder(check, *entry);
}

// The entry that `pending` can join, or null.
CheckQueue::Entry* CheckQueue::LatestEqual(const PendingCheck& pending, std::size_t hash) {
  const auto [latest_hash, number] = latest_[hash % kSlots];
  if (latest_hash != hash || entries_.empty() || number < entries_.front().number) return nullptr;
  Entry& entry = entries_[number - entries_.front().number];
  if (entry.checks.empty() || !Equal(entry.front(), pending)) return nullptr;
  const StoreCheck& check = *pending.check;
  if (check.in_order && LatestInOrder(check) > entry.number) return nullptr;
  return &entry;
}

// The number of the latest entry in which an in-order check uses a counter of `check`; 0: none. If
// hashes collide, a later entry's number may be returned.
std::uint64_t CheckQueue::LatestInOrder(const StoreCheck& check) const {
  std::uint64_t latest = 0;
  for (const CounterCheck& counter : check.counters) {
    latest = std::max(latest, in_order_[counter.key.hash() % kSlots]);
  }
  return latest;
}

void CheckQueue::NoteInOrder(const StoreCheck& check, Entry& entry) {
  const std::uint64_t latest = LatestInOrder(check);
  if (latest < entry.number) entry.after = std::max(entry.after, latest);
  for (const CounterCheck& counter : check.counters) {
    std::uint64_t& place = in_order_[counter.key.hash() % kSlots];
    place = std::max(place, entry.number);
  }
}

CheckQueue::Entry CheckQueue::TakeFront() {
  Entry front = std::move(entries_.front());
  entries_.pop_front();
  --live_entries_;
  DropEmptyEntries();
  return front;
}

CheckQueue::Entry CheckQueue::Take(std::size_t index) {
  Entry& entry = entries_[index];
  --live_entries_;
  return {.checks = std::exchange(entry.checks, {}), .number = entry.number, .after = entry.after};
}

void CheckQueue::DropEmptyEntries() {
  while (!entries_.empty() && entries_.front().checks.empty()) entries_.pop_front();
}

PendingChecks CheckQueue::RemoveIf(const std::function<bool(const PendingCheck&)>& takes) {
  PendingChecks removed;
  for (auto& [checks, number, after] : entries_) {
    if (checks.empty()) continue;
    for (PendingPtr& check : checks) {
      if (takes(*check)) removed.push_back(std::move(check));
    }
    checks.erase(std::remove(checks.begin(), checks.end(), nullptr), checks.end());
    if (checks.empty()) --live_entries_;
  }
  DropEmptyEntries();
  return removed;
}

}  // namespace sluice::redis
