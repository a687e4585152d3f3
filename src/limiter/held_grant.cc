#include "limiter/held_grant.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// Whether the check certainly did not run in the store.
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
  if (!asking_) SetWanted(now);
  return {grant_.generation, std::exchange(grant_.units, 0), left_};
}

void HeldGrant::SetWanted(BootTime now) {
  const auto granted = static_cast<double>(grant_.units);
  const auto used = static_cast<double>(grant_.units - left_);
  const auto held_for = std::chrono::duration<double>(now - begin_);
  const double in_a_life = used * (GrantLife(limit) / held_for);
  wanted_ = static_cast<std::int64_t>(std::min(2 * granted, in_a_life));
}

GrantWish HeldGrant::Ask(std::int64_t units, BootTime now) {
  if (now < ask_after_ || std::exchange(asking_, true)) return {};
  if (holds()) SetWanted(now);
  asked_at_ = now;
  wanted_ = std::max({wanted_, kFirstWish, 2 * units});
  return {std::min(wanted_, MostAtOnce(limit)), GrantLife(limit)};
}

bool HeldGrant::EndsSoon(BootTime now) const {
  return kLastPart * left_ <= grant_.units || now >= end_ - grant_.life / kLastPart;
}

bool HeldGrant::Learn(const CounterCheck& counter, bool may_keep, std::int64_t unused) {
  const bool asked = counter.wanted.units > 0;
  if (asked) asking_ = false;
  if (asked && std::exchange(is_void_, false)) return false;
  if (asked && counter.grant.units == 0) ask_after_ = asked_at_ + counter.wanted.life / 8;
  if (!may_keep || holds()) return false;
  const GrantReturn& returned = counter.returned;
  if (HasNotRun(counter) && returned.granted > 0 && returned.generation == grant_.generation) {
    grant_.units = returned.granted;
    left_ = returned.unused;
  } else if (counter.grant.units > 0 && limit == *counter.limit) {
    grant_ = counter.grant;
    begin_ = asked_at_;
    left_ = grant_.units;
    end_ = begin_ + 9 * grant_.life / 10;
    seen_ = counter.before;
    sluice::Take(limit, seen_, (counter.charged ? counter.units : 0) - unused);
    decided_at_ = counter.decided_at;
  } else {
    return false;
  }
  return true;
}

BootTime HeldGrant::forgotten() const {
  if (holds() || asking_) return BootTime::max();
  const bool is_unused = wanted_ < GrantsOut::kFewest;
  return is_unused ? BootTime::min() : std::max(asked_at_, end_) + kForgets;
}

}  // namespace sluice
