// A copy of a check that owns its keys and limits: what a store keeps after the owner of the check
// has been answered.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace sluice {

class OwnedCheck : public StoreCheck {
 public:
  // Out parameters included, but without deadlines and order.
  explicit OwnedCheck(const StoreCheck& check);

  // Of one counter of `check`, in another mode, which concerns no grants.
  OwnedCheck(const StoreCheck& check, const CounterCheck& counter, Mode mode);

  // Becomes the check that returns the grant which its one counter got.
  void ReturnGrant();

  // Becomes the check that settles its lease of units with 0.
  void GiveBackAll();

 private:
  void OnDecided() override {}
  void Own();

  std::string keys_;
  std::vector<Limit> limits_;
};

}  // namespace sluice
