// A check of a node's own, which takes back what somebody else's was charged. Owns itself from the
// moment it is gathered until it is decided.
//
// Loop thread only.
#pragma once

#include "store/undo_check.h"

namespace sluice::redis {

class Node;

class TakeBack final : public UndoCheck {
 public:
  TakeBack(Node& node, const StoreCheck& check, What what) : UndoCheck(check, what), node_(node) {}

 private:
  void OnDecided() override;

  Node& node_;
};

}  // namespace sluice::redis
