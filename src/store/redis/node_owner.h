// What a node asks of the store it is part of.
//
// Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/redis/take_back.h"
#include "store/store.h"

namespace sluice::redis {

class Node;

class NodeOwner {
 public:
  virtual ~NodeOwner() = default;

  // `node` has not run the check (or reset), as its keys are not there: `error` is a redirect or
  // tells of a foreign key. It is no longer the node's, and to be sent again, or failed.
  virtual void OnRedirect(Node& node, StoreCheck& check, std::string_view error) = 0;
  virtual void OnRedirect(Node& node, StoreReset& reset, std::string_view error) = 0;

  // It has been decided, or has failed: to be handed to the node of its keys, Node::OnTakenBack.
  virtual void OnTakenBack(std::unique_ptr<TakeBack> take_back) = 0;

  // The node is lost or is no master: another may be in its place.
  virtual void OnDoubt() = 0;

  // A counter that `node` may charge, to find out whether it can.
  virtual std::string ProbeKey(const Node& node) const = 0;
};

}  // namespace sluice::redis
