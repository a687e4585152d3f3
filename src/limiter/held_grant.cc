#include "limiter/held_grant.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// Whether the store certainly has not seen the check.
bool HasNotRun(const CounterCheck& counter) {
  return counter.failure == StoreFailure::kUnsent ||
         counter.failure == StoreFailure::kUnreachable ||
         counter.failure == StoreFailure::kOverloaded;
}

}  // namespace

void HeldGrant::Take(std::int64_t units) {
  left_ -= units;
  sluice::Take(limit, seen_, units);
}

GrantReturn HeldGrant::TakeOut(BootTime now) {
  const std::int64_t granted = std::exchange(grant_.units, 0);
  const bool spent_early = 4 * left_ <= granted && now < begin_ + 3 * grant_.life / 4;
  wanted_ = spent_early ? 2 * granted : granted - left_;
  return {grant_.generation, granted, left_};
}

GrantWish HeldGrant::Ask(std::int64_t units, BootTime now) {
  if (now < ask_after_ || std::exchange(asking_, true)) return {};
  begin_ = now;
  wanted_ = std::max({wanted_, kFirstWish, 2 * units});
  return {std::min(wanted_, MostAtOnce(limit)), GrantLife(limit)};
}

bool HeldGrant::Learn(const CounterCheck& counter, bool may_keep) {
  const bool asked = counter.wanted.units > 0;
  if (asked) asking_ = false;
  if (asked && std::exchange(is_void_, false)) return false;
  if (asked && !counter.failure && counter.grant.units == 0) {
    ask_after_ = begin_ + counter.wanted.life / 8;
  }
  if (!may_keep || holds()) return false;
  const GrantReturn& returned = counter.returned;
  if (HasNotRun(counter) && returned.granted > 0 && returned.generation == grant_.generation) {
    grant_.units = returned.granted;
    left_ = returned.unused;
  } else if (counter.grant.units > 0 && limit == *counter.limit) {
    grant_ = counter.grant;
    left_ = grant_.units;
    end_ = begin_ + 9 * grant_.life / 10;
    seen_ = counter.before;
    if (counter.charged) sluice::Take(limit, seen_, counter.units);
    decided_at_ = counter.decided_at;
  } else {
    return false;
  }
  ++serial_;
  return true;
}

BootTime HeldGrant::forgotten() const {
  if (holds() || asking_) return BootTime::max();
  const bool is_unused = wanted_ < GrantsOut::kFewest;
  return is_unused ? BootTime::min() : std::max(begin_, end_) + kForgets;
}

}  // namespace sluice
