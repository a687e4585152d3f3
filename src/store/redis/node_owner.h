// The interface of a node to the store that contains it.
//
// Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "store/redis/pending_check.h"
#include "store/store.h"

namespace sluice::redis {

class Node;

class NodeOwner {
 public:
  virtual ~NodeOwner() = default;

  // `node` has not run the check (or reset): `error` is a redirect, reports a foreign key, or
  // refuses undeclared keys. If `error` is empty, the node is retired.
  virtual void OnRedirect(Node& node, PendingPtr check, std::string_view error) = 0;
  virtual void OnRedirect(Node& node, StoreReset& reset, std::string_view error) = 0;

  // All checks that shared a reply have been redirected. The owner takes over the checks that must
  // follow them.
  virtual void OnRedirected(Node& node) = 0;

  // The node is lost, or is not a master: another node may have replaced it.
  virtual void OnLayoutSuspect() = 0;

  // Its connection is lost, or connecting or logging in has failed.
  virtual void OnUnreachable(const Node& node) = 0;

  // Checks can be sent to it again: it is connected and its breaker is closed.
  virtual void OnReachable(const Node& node) = 0;

  // A counter that `node` may charge as a probe. In a Cluster, each call returns another counter.
  virtual std::string ProbeKey(const Node& node) = 0;
};

}  // namespace sluice::redis
