// One counter that this server prefetches: the grant that the server holds, and how much it asks
// for next.
//
// Not thread-safe: GrantTable locks.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "core/algorithm/counter.h"
#include "store/store.h"

namespace sluice {

class HeldGrant {
 public:
  // The smallest number of units that is asked for, unless the limit can never hold so many.
  static constexpr std::int64_t kFirstWish = 8;
  // The next grant is asked for when an eighth of the units or of the life is left.
  static constexpr std::int64_t kLastPart = 8;
  // An entry that holds nothing is forgotten after this time, or earlier if it is hardly used.
  static constexpr Duration kForgets = kMaxPrefetch;

  explicit HeldGrant(const Limit& its_limit) : limit(its_limit) {}

  // Whether a grant is held.
  bool holds() const { return grant_.units > 0; }
  // Whether `units` of the grant may be used at `now`.
  bool MayTake(std::int64_t units, BootTime now) const {
    return holds() && now < end_ && units <= left_;
  }

  // Uses `units` of the grant; a negative number puts units back. REQUIRES: MayTake(units)
  void Take(std::int64_t units);

  // The counter's state when the store decided, less what was used here since then.
  const CounterSnapshot& seen() const { return seen_; }
  // The time of the store's decision.
  Time decided_at() const { return decided_at_; }

  // Returns the grant that is held, and stops holding it. REQUIRES: holds()
  GrantReturn TakeOut(BootTime now);

  // What to ask the store for in a check of `units`. Nothing if a request is already on its way, or
  // was refused or failed just now.
  GrantWish Ask(std::int64_t units, BootTime now);

  // Whether the next grant should be asked for. REQUIRES: holds()
  bool EndsSoon(BootTime now) const;

  // A check that returned or wanted a grant has been answered by the store, or has failed. If
  // `may_keep`, holds the grant that arrived, or the grant that could not be returned. Returns
  // whether it does. `unused`: if an earlier grant was just taken out to make room for the grant
  // that arrived, the unused units of the earlier grant.
  bool Learn(const CounterCheck& counter, bool may_keep, std::int64_t unused);

  // The counter was reset: a grant that is held or on its way is not used anymore.
  void Forget() {
    grant_ = {};
    is_void_ = asking_;
  }

  // When the grant must be returned; max() if nothing is held.
  BootTime end() const { return holds() ? end_ : BootTime::max(); }
  // When the entry can be forgotten; max() while a grant is held or asked for.
  BootTime forgotten() const;

  Limit limit;            // of the checks that ask for grants
  std::uint64_t era = 0;  // see GrantTable

 private:
  void SetWanted(BootTime now);

  Grant grant_;  // the latest; no units: nothing is held
  std::int64_t left_ = 0;
  CounterSnapshot seen_;
  Time decided_at_;
  BootTime begin_;  // when the store was asked for grant_
  BootTime end_;
  BootTime asked_at_;  // when the store was asked for the next grant
  BootTime ask_after_;
  std::int64_t wanted_ = kFirstWish;
  bool asking_ = false;
  bool is_void_ = false;  // the grant on its way will not be used
};

}  // namespace sluice
