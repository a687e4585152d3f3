// Charges the store, once it is back, for units admitted without it, at a bounded rate: each unit
// once, and the slots of leases while they are held.
//
// One io thread only. The store must have completed every check before this is destroyed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "limiter/fallback_charges.h"
#include "limiter/fallback_leases.h"
#include "limiter/limiter.h"
#include "store/store.h"

namespace sluice {

class FallbackReconciler {
 public:
  // The interval at which OnTime must be called.
  static constexpr std::chrono::milliseconds kEvery{10};

  explicit FallbackReconciler(Limiter& limiter) : limiter_(limiter) {}

  // Sends a few pending changes of leases, and as many charges; after a failure only one of each,
  // until the store accepts it. Neither waits for the other: a part of the store may stay away.
  void OnTime();

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  // No caller waits for a charge, so the timeout is longer than for a check.
  static constexpr std::chrono::seconds kTimeout{1};

  struct ChargeCheck final : StoreCheck {
    ChargeCheck(FallbackReconciler& its_owner, FallbackCharges::Charge owed);
    void OnDecided() override { owner.OnCharged(*this); }

    FallbackReconciler& owner;
    FallbackCharges::Charge charge;
  };
  struct LeaseCheck final : StoreCheck {
    LeaseCheck(FallbackReconciler& its_owner, FallbackLeases::Change its_change, SteadyTime now);
    void OnDecided() override { owner.OnTold(*this); }

    FallbackReconciler& owner;
    FallbackLeases::Change change;
  };

  void OnCharged(ChargeCheck& check);
  void OnTold(const LeaseCheck& check);
  void NoteDecided(const StoreCheck& check);

  Limiter& limiter_;
  // All of these are decided before the next are sent, so changes of one lease stay in order.
  std::vector<std::unique_ptr<StoreCheck>> under_way_;
  std::size_t undecided_ = 0;  // of under_way_
  bool store_takes_ = false;
};

}  // namespace sluice
