#include "store/redis/check_queue.h"

#include <algorithm>

#include "base/hash.h"
#include "core/demand.h"
#include "store/redis/script_call.h"

namespace sluice::redis {
namespace {

// Whether such checks may be coalesced. Rare modes are excluded.
bool MayCoalesce(const StoreCheck& check) {
  if (MayCoalesceCharge(check)) return true;
  return check.demand.consumes_or_peeks() &&
         std::all_of(check.counters.begin(), check.counters.end(), [](const CounterCheck& counter) {
           return sluice::MayCoalesce(*counter.limit);
         });
}

std::size_t IdentityHash(const StoreCheck& check) {
  std::size_t hash = Hash(check.demand);
  for (const CounterCheck& counter : check.counters) {
    hash = CombineHash(hash, Hash(counter.key));
    hash = CombineHash(hash, reinterpret_cast<std::uintptr_t>(counter.limit) + counter.group);
  }
  return hash;
}

// Whether two checks have the same demand on the same counters, so that they may be coalesced.
// Limits are compared by address, which identifies them within one rule set.
bool Equal(const StoreCheck& a, const StoreCheck& b) {
  return a.demand == b.demand && a.routing == b.routing &&
         std::equal(a.counters.begin(), a.counters.end(), b.counters.begin(), b.counters.end(),
                    [](const CounterCheck& x, const CounterCheck& y) {
                      return x.limit == y.limit && x.group == y.group && x.key == y.key;
                    });
}

}  // namespace

void CheckQueue::Add(StoreCheck& check) {
  check.next = nullptr;
  Entry* entry = nullptr;
  if (MayCoalesce(check)) {
    const std::size_t hash = IdentityHash(check);
    entry = LatestEqual(check, hash);
    if (entry == nullptr) latest_[hash % kSlots] = next_number_;
  }
  if (entry != nullptr) {
    entry->last->next = &check;
    entry->last = &check;
    ++entry->n;
  } else {
    entries_.push_back({.first = &check, .last = &check, .n = 1, .number = next_number_++});
    entry = &entries_.back();
    ++live_entries_;
  }
  if (check.in_order) NoteInOrder(check, *entry);
}

// The entry that `check` can join, or null.
CheckQueue::Entry* CheckQueue::LatestEqual(const StoreCheck& check, std::size_t hash) {
  const std::uint64_t number = latest_[hash % kSlots];
  if (head_ == entries_.size() || number < entries_[head_].number) return nullptr;
  Entry& entry = entries_[head_ + (number - entries_[head_].number)];
  if (entry.first == nullptr || !Equal(*entry.first, check)) return nullptr;
  if (check.in_order && LatestInOrder(check) > entry.number) return nullptr;
  return &entry;
}

// The latest entry in which an in-order check uses a counter of `check`; possibly a later one.
std::uint64_t CheckQueue::LatestInOrder(const StoreCheck& check) const {
  std::uint64_t latest = 0;
  for (const CounterCheck& counter : check.counters) {
    latest = std::max(latest, in_order_[Hash(counter.key) % kSlots]);
  }
  return latest;
}

void CheckQueue::NoteInOrder(const StoreCheck& check, Entry& entry) {
  const std::uint64_t latest = LatestInOrder(check);
  if (latest < entry.number) entry.after = std::max(entry.after, latest);
  for (const CounterCheck& counter : check.counters) {
    std::uint64_t& place = in_order_[Hash(counter.key) % kSlots];
    place = std::max(place, entry.number);
  }
}

void CheckQueue::PopFront() {
  ++head_;
  --live_entries_;
  DropEmptyEntries();
}

void CheckQueue::DropEmptyEntries() {
  while (head_ < entries_.size() && entries_[head_].first == nullptr) ++head_;
  // Amortized: the entries moved are no more than those removed.
  if (2 * head_ < entries_.size()) return;
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
}

StoreCheck* CheckQueue::TakeIf(const std::function<bool(StoreCheck&)>& takes) {
  StoreCheck* taken = nullptr;
  StoreCheck** end = &taken;
  for (std::size_t i = head_; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    StoreCheck* next = entry.first;
    if (next == nullptr) continue;
    entry.first = entry.last = nullptr;
    entry.n = 0;
    while (next != nullptr) {
      StoreCheck& check = *next;
      next = check.next;
      if (takes(check)) {
        *end = &check;
        end = &check.next;
        continue;
      }
      check.next = nullptr;
      (entry.last == nullptr ? entry.first : entry.last->next) = &check;
      entry.last = &check;
      ++entry.n;
    }
    if (entry.first == nullptr) --live_entries_;
  }
  *end = nullptr;
  DropEmptyEntries();
  return taken;
}

}  // namespace sluice::redis
