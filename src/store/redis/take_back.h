// A check of the store's own, which takes back what somebody else's was charged. Owns itself from
// the moment it is gathered until it is decided.
//
// Loop thread only.
#pragma once

#include "store/undo_check.h"

namespace sluice::redis {

class NodeOwner;

class TakeBack final : public UndoCheck {
 public:
  TakeBack(NodeOwner& owner, const StoreCheck& check, What what)
      : UndoCheck(check, what), owner_(owner) {}

 private:
  void OnDecided() override;

  NodeOwner& owner_;
};

}  // namespace sluice::redis
