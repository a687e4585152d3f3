// Charges the store, once it is back, for what passed without it, at a bounded rate: each unit
// once, and the slots of leases for as long as they are held.
//
// One io thread only. The store must have handed back every check before this is destroyed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "limiter/fallback_leases.h"
#include "limiter/limiter.h"
#include "limiter/owed_charges.h"
#include "store/store.h"

namespace sluice {

class ChargeBack {
 public:
  // How often OnTime is to be called.
  static constexpr std::chrono::milliseconds kEvery{10};

  explicit ChargeBack(Limiter& limiter) : limiter_(limiter) {}

  // Sends a few charges, if any are owed: one, until the store has taken it.
  void OnTime();

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  // Nobody waits for a charge, so the store may take longer than for a check.
  static constexpr std::chrono::seconds kTimeout{1};

  struct UnitsCheck final : StoreCheck {
    UnitsCheck(ChargeBack& its_owner, OwedCharges::Charge owed);
    void OnDecided() override { owner.OnCharged(*this); }

    ChargeBack& owner;
    OwedCharges::Charge charge;
  };
  struct LeaseCheck final : StoreCheck {
    LeaseCheck(ChargeBack& its_owner, FallbackLeases::Change its_change, SteadyTime now);
    void OnDecided() override { owner.OnTold(*this); }

    ChargeBack& owner;
    FallbackLeases::Change change;
  };

  void OnCharged(UnitsCheck& check);
  void OnTold(const LeaseCheck& check);
  void NoteDecided(const StoreCheck& check);

  Limiter& limiter_;
  // All of them are decided before the next are sent, so changes of one lease stay in order.
  std::vector<std::unique_ptr<StoreCheck>> under_way_;
  std::size_t undecided_ = 0;  // of under_way_
  bool store_takes_ = false;
};

}  // namespace sluice
