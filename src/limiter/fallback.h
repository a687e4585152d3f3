// What this server knows for the time when the store fails: the states it has seen there last, its
// share of what is left, and what it lets pass meanwhile. Times are the store's.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "core/limit.h"
#include "limiter/fallback_leases.h"
#include "limiter/fleet_share.h"
#include "limiter/owed_charges.h"
#include "limiter/recent_states.h"
#include "limiter/recovery.h"
#include "limiter/store_clock.h"
#include "store/store.h"

namespace sluice {

class Fallback final : public LateAnswers {
 public:
  // `own_clock` must outlive this.
  explicit Fallback(const Clock& own_clock, const Share& initial_share = Share::Whole())
      : clock(own_clock), share(initial_share) {}

  StoreClock clock;
  FleetShare share;
  RecentStates states;
  OwedCharges owed;
  FallbackLeases leases;
  Recovery recovery;

  // The store is about to be asked `check`: its answer will be learned.
  void Expect(const StoreCheck& check) const;

  // What an answer of the store says of counters; those that failed say nothing.
  void Learn(const StoreCheck& check);
  void OnLateAnswer(const StoreCheck& check) override { Learn(check); }

  // The counter was made as new.
  void Forget(std::string_view key);

  // A counter as this server decides it by itself.
  struct LocalCounter {
    Limit limit;                      // this server's share
    std::optional<CounterSeed> seed;  // none: begins as a new one
  };
  LocalCounter Localise(std::string_view key, const Limit& limit) const;

  // Notes that `cost` units passed which the store does not know of. Returns false if there is no
  // room to.
  bool Owe(std::string_view key, const Limit& limit, std::int64_t cost);
};

}  // namespace sluice
