// Charges the store, once it is back, for what passed without it: at a bounded rate, and each unit
// once.
//
// One io thread only. The store must have handed back every check before this is destroyed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

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

  struct Check final : StoreCheck {
    Check(ChargeBack& its_owner, OwedCharges::Charge owed);
    void OnDecided() override { owner.OnDecided(*this); }

    ChargeBack& owner;
    OwedCharges::Charge charge;
  };

  void OnDecided(Check& check);

  Limiter& limiter_;
  std::vector<std::unique_ptr<Check>> under_way_;
  std::size_t undecided_ = 0;  // of under_way_
  bool store_takes_ = false;
};

}  // namespace sluice
