#include "store/redis/gathering.h"

#include <algorithm>

#include "base/hash.h"

namespace sluice::redis {
namespace {

std::size_t IdentityHash(const StoreCheck& check) {
  std::size_t hash =
      CombineHash(static_cast<std::size_t>(check.cost), static_cast<std::size_t>(check.mode));
  for (const CounterCheck& counter : check.counters) {
    hash = CombineHash(hash, Hash(counter.key));
  }
  return hash;
}

// Whether there may be runs of more than one such check. Rare modes are not worth it.
bool MayRunTogether(const StoreCheck& check) {
  return (check.mode == Mode::kConsume || check.mode == Mode::kPeek) &&
         std::all_of(check.counters.begin(), check.counters.end(), [](const CounterCheck& counter) {
           return sluice::MayRunTogether(*counter.limit);
         });
}

// Whether two checks ask the same of the same counters, so that a run of both is what the script
// means by a run. Limits are compared by address: those of one rule set are equal only if the same.
bool Equal(const StoreCheck& a, const StoreCheck& b) {
  return a.cost == b.cost && a.mode == b.mode && a.max_wait == b.max_wait &&
         std::equal(a.counters.begin(), a.counters.end(), b.counters.begin(), b.counters.end(),
                    [](const CounterCheck& x, const CounterCheck& y) {
                      return x.limit == y.limit && x.group == y.group && x.key == y.key;
                    });
}

}  // namespace

void Gathering::Add(StoreCheck& check) {
  check.next = nullptr;
  const std::size_t hash = IdentityHash(check);
  Run*& latest = latest_[hash];
  if (latest != nullptr && Equal(*latest->first, check) && MayRunTogether(check)) {
    latest->last->next = &check;
    latest->last = &check;
    ++latest->n;
    return;
  }
  runs_.push_back({.first = &check, .last = &check, .n = 1, .hash = hash});
  latest = &runs_.back();
}

void Gathering::PopFront() {
  const auto latest = latest_.find(runs_.front().hash);
  if (latest != latest_.end() && latest->second == &runs_.front()) latest_.erase(latest);
  runs_.pop_front();
}

StoreCheck* Gathering::TakeExpired(SteadyTime now) {
  StoreCheck* expired = nullptr;
  std::vector<StoreCheck*> kept;
  for (; !empty(); PopFront()) {
    for (StoreCheck* check = front().first; check != nullptr;) {
      StoreCheck* const next = check->next;
      if (check->deadline <= now) {
        check->next = expired;
        expired = check;
      } else {
        kept.push_back(check);
      }
      check = next;
    }
  }
  for (StoreCheck* check : kept) Add(*check);
  return expired;
}

SteadyTime Gathering::EarliestDeadline() const {
  SteadyTime earliest = SteadyTime::max();
  for (const Run& run : runs_) {
    for (const StoreCheck* check = run.first; check != nullptr; check = check->next) {
      earliest = std::min(earliest, check->deadline);
    }
  }
  return earliest;
}

}  // namespace sluice::redis
