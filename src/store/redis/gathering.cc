#include "store/redis/gathering.h"

#include <algorithm>

#include "base/hash.h"

namespace sluice::redis {
namespace {

std::size_t IdentityHash(const StoreCheck& check) {
  std::size_t hash = Hash(check.demand);
  for (const CounterCheck& counter : check.counters) {
    hash = CombineHash(hash, Hash(counter.key));
  }
  return hash;
}

// Whether there may be runs of more than one such check. Rare modes are not worth it.
bool MayRunTogether(const StoreCheck& check) {
  return check.demand.consumes_or_peeks() &&
         std::all_of(check.counters.begin(), check.counters.end(), [](const CounterCheck& counter) {
           return sluice::MayRunTogether(*counter.limit);
         });
}

// Whether two checks ask the same of the same counters, so that a run of both is what the script
// means by a run. Limits are compared by address: those of one rule set are equal only if the same.
bool Equal(const StoreCheck& a, const StoreCheck& b) {
  return a.demand == b.demand &&
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
  if (latest != nullptr && MayJoin(check, *latest)) {
    latest->last->next = &check;
    latest->last = &check;
    ++latest->n;
  } else {
    runs_.push_back(
        {.first = &check, .last = &check, .n = 1, .hash = hash, .number = next_number_++});
    latest = &runs_.back();
  }
  if (check.in_order) NotePlace(check, *latest);
}

bool Gathering::MayJoin(const StoreCheck& check, const Run& run) const {
  if (!Equal(*run.first, check) || !MayRunTogether(check)) return false;
  return !check.in_order ||
         std::none_of(check.counters.begin(), check.counters.end(),
                      [&](const CounterCheck& counter) {
                        const auto place = places_.find(Hash(counter.key));
                        return place != places_.end() && place->second > run.number;
                      });
}

void Gathering::NotePlace(const StoreCheck& check, const Run& run) {
  for (const CounterCheck& counter : check.counters) places_[Hash(counter.key)] = run.number;
}

void Gathering::PopFront() {
  const Run& run = runs_.front();
  for (const CounterCheck& counter : run.first->counters) {
    const auto place = places_.empty() ? places_.end() : places_.find(Hash(counter.key));
    if (place != places_.end() && place->second == run.number) places_.erase(place);
  }
  const auto latest = latest_.find(run.hash);
  if (latest != latest_.end() && latest->second == &run) latest_.erase(latest);
  runs_.pop_front();
}

StoreCheck* Gathering::TakeExpired(SteadyTime now) {
  StoreCheck* expired = nullptr;
  StoreCheck** end = &expired;
  std::vector<StoreCheck*> kept;
  for (; !empty(); PopFront()) {
    for (StoreCheck* check = front().first; check != nullptr;) {
      StoreCheck* const next = check->next;
      if (check->deadline <= now) {
        *end = check;
        end = &check->next;
      } else {
        kept.push_back(check);
      }
      check = next;
    }
  }
  *end = nullptr;
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
