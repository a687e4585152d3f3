// The data this server keeps for store failures: the last seen states, its share of the limits, and
// the units it admitted meanwhile. Times are on the store's clock. Also, what the store reports
// beside its answers.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "core/limit.h"
#include "limiter/clearings.h"
#include "limiter/fallback_charges.h"
#include "limiter/fallback_leases.h"
#include "limiter/fleet_share.h"
#include "limiter/recent_states.h"
#include "limiter/recovery.h"
#include "limiter/store_clock.h"
#include "store/store.h"

namespace sluice {

class Fallback final : public StoreListener {
 public:
  // `own_clock` must outlive this.
  explicit Fallback(const Clock& own_clock, const Share& initial_share = Share::Whole())
      : clock(own_clock), share(initial_share) {}

  StoreClock clock;
  FleetShare share;
  Clearings clearings;
  RecentStates states;
  FallbackCharges owed;
  FallbackLeases leases;
  Recovery recovery;
  // The store is being charged with what was taken from `owed` or `leases`.
  std::atomic<bool> charging{false};

  // Announces that the store will be asked `check`, whose answer will be learned.
  void Expect(const StoreCheck& check) const;

  // Learns the counters' states from an answer of the store. Failed counters are ignored.
  void Learn(const StoreCheck& check);
  void OnLateAnswer(const StoreCheck& check) override;
  void OnUndoEnded(const StoreCheck& undo) override;

  void OnPartLost(std::size_t part) override { recovery.OnLost(part, clock.Now()); }
  void OnPartFound(std::size_t part) override { recovery.OnFound(part, clock.Now()); }

  // Whether checks still avoid the part of the store: see Recovery.
  bool Settles(std::size_t part) { return recovery.Settles(part, clock.Now(), Owes()); }

  // The counter was reset.
  void Forget(std::string_view key);

  // A counter as decided locally by this server.
  struct LocalCounter {
    Limit limit;                      // this server's share
    std::optional<CounterSeed> seed;  // none: starts as a new one
  };
  LocalCounter Localize(std::string_view key, const Limit& limit) const;

  // Records `cost` admitted units that the store does not know of. Returns false if there is no
  // room.
  bool RecordCharge(std::string_view key, const Limit& limit, std::int64_t cost);

 private:
  bool Owes() { return charging.load() || owed.size() > 0 || leases.HasChanges(); }
  void NoteClearing(const StoreCheck& check);
};

}  // namespace sluice
