#include "store/redis/gathering.h"

#include <algorithm>

#include "base/hash.h"
#include "core/demand.h"

namespace sluice::redis {
namespace {

// Whether there may be runs of more than one such check. Rare modes are not worth it.
bool MayRunTogether(const StoreCheck& check) {
  return check.demand.consumes_or_peeks() &&
         std::all_of(check.counters.begin(), check.counters.end(), [](const CounterCheck& counter) {
           return sluice::MayRunTogether(*counter.limit);
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

// Whether two checks ask the same of the same counters, so that a run of both is what the script
// means by a run. Limits are compared by address: those of one rule set are equal only if the same.
bool Equal(const StoreCheck& a, const StoreCheck& b) {
  return a.demand == b.demand && a.sending == b.sending &&
         std::equal(a.counters.begin(), a.counters.end(), b.counters.begin(), b.counters.end(),
                    [](const CounterCheck& x, const CounterCheck& y) {
                      return x.limit == y.limit && x.group == y.group && x.key == y.key;
                    });
}

}  // namespace

void Gathering::Add(StoreCheck& check) {
  check.next = nullptr;
  Run* run = nullptr;
  if (MayRunTogether(check)) {
    const std::size_t hash = IdentityHash(check);
    run = LatestEqual(check, hash);
    if (run == nullptr) latest_[hash % kSlots] = next_number_;
  }
  if (run != nullptr) {
    run->last->next = &check;
    run->last = &check;
    ++run->n;
  } else {
    runs_.push_back({.first = &check, .last = &check, .n = 1, .number = next_number_++});
    run = &runs_.back();
    ++live_runs_;
  }
  if (check.in_order) NoteInOrder(check, *run);
}

// The run that `check` may join, or null.
Gathering::Run* Gathering::LatestEqual(const StoreCheck& check, std::size_t hash) {
  const std::uint64_t number = latest_[hash % kSlots];
  if (head_ == runs_.size() || number < runs_[head_].number) return nullptr;
  Run& run = runs_[head_ + (number - runs_[head_].number)];
  if (run.first == nullptr || !Equal(*run.first, check)) return nullptr;
  if (check.in_order && LatestInOrder(check) > run.number) return nullptr;
  return &run;
}

// The latest run in which an in-order check uses a counter of `check`, or a later one.
std::uint64_t Gathering::LatestInOrder(const StoreCheck& check) const {
  std::uint64_t latest = 0;
  for (const CounterCheck& counter : check.counters) {
    latest = std::max(latest, in_order_[Hash(counter.key) % kSlots]);
  }
  return latest;
}

void Gathering::NoteInOrder(const StoreCheck& check, Run& run) {
  const std::uint64_t latest = LatestInOrder(check);
  if (latest < run.number) run.after = std::max(run.after, latest);
  for (const CounterCheck& counter : check.counters) {
    std::uint64_t& place = in_order_[Hash(counter.key) % kSlots];
    place = std::max(place, run.number);
  }
}

void Gathering::PopFront() {
  ++head_;
  --live_runs_;
  DropEmptyRuns();
}

void Gathering::DropEmptyRuns() {
  while (head_ < runs_.size() && runs_[head_].first == nullptr) ++head_;
  // Moving what is left is paid for by what was taken.
  if (2 * head_ < runs_.size()) return;
  runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
}

StoreCheck* Gathering::TakeExpired(SteadyTime now) {
  StoreCheck* expired = nullptr;
  StoreCheck** end = &expired;
  for (std::size_t i = head_; i < runs_.size(); ++i) {
    Run& run = runs_[i];
    StoreCheck* next = run.first;
    if (next == nullptr) continue;
    run.first = run.last = nullptr;
    run.n = 0;
    while (next != nullptr) {
      StoreCheck& check = *next;
      next = check.next;
      if (check.deadline <= now) {
        *end = &check;
        end = &check.next;
        continue;
      }
      check.next = nullptr;
      (run.last == nullptr ? run.first : run.last->next) = &check;
      run.last = &check;
      ++run.n;
    }
    if (run.first == nullptr) --live_runs_;
  }
  *end = nullptr;
  DropEmptyRuns();
  return expired;
}

}  // namespace sluice::redis
