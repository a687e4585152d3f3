// A check created by the store that undoes what another check was charged. Owns itself from the
// time it is queued until it is decided.
//
// Loop thread only.
#pragma once

#include "store/undo_check.h"

namespace sluice::redis {

class NodeOwner;

class DetachedUndo final : public UndoCheck {
 public:
  DetachedUndo(NodeOwner& owner, const StoreCheck& check, Scope scope)
      : UndoCheck(check, scope), owner_(owner) {}

 private:
  void OnDecided() override;

  NodeOwner& owner_;
};

}  // namespace sluice::redis
