// The interface of a node to the store that contains it.
//
// Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/redis/detached_undo.h"
#include "store/store.h"

namespace sluice::redis {

class Node;

class NodeOwner {
 public:
  virtual ~NodeOwner() = default;

  // `node` has not run the check (or reset), because its keys are elsewhere: `error` is a redirect
  // or reports a foreign key. The node no longer holds it; it must be sent again or failed.
  virtual void OnRedirect(Node& node, StoreCheck& check, std::string_view error) = 0;
  virtual void OnRedirect(Node& node, StoreReset& reset, std::string_view error) = 0;

  // All checks that shared a reply have been redirected. Takes over those that must follow them.
  virtual void OnRedirected(Node& node) = 0;

  // It has been decided or has failed; pass it to Node::OnUndone of the node of its keys.
  virtual void OnUndone(std::unique_ptr<DetachedUndo> undo) = 0;

  // The node is lost or not a master: another may have replaced it.
  virtual void OnLayoutSuspect() = 0;

  // Its connection is lost, or connecting or logging in has failed.
  virtual void OnUnreachable(const Node& node) = 0;

  // Checks can be sent to it again: it is connected and its breaker is closed.
  virtual void OnReachable(const Node& node) = 0;

  // A counter that `node` may charge as a probe; of a cluster's nodes another one each time.
  virtual std::string ProbeKey(const Node& node) = 0;
};

}  // namespace sluice::redis
