// A copy of a check. The copy owns its keys and limits, so a store can keep it after the owner of
// the check has been answered.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace sluice {

class OwnedCheck : public StoreCheck {
 public:
  // Also copies the results: `admitted`, `decided_at` and the counters' results. The copy has no
  // deadlines and is not in-order.
  explicit OwnedCheck(const StoreCheck& check);

  // A copy with one counter of `check`, in another mode. It concerns no grants.
  OwnedCheck(const StoreCheck& check, const CounterCheck& counter, Mode mode);

  // Turns this check into a settlement that returns all units of its lease.
  void GiveBackAll();

 private:
  void OnDecided() override {}
  void Own();

  std::string keys_;
  std::vector<Limit> limits_;
};

}  // namespace sluice
