// The interface of a thread's store to the checks and resets that it has split.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/redis/pending_check.h"
#include "store/redis/settler.h"
#include "store/store.h"

namespace sluice::redis {

class Node;

// Counters with equal routes can be sent in one call.
struct Route {
  Node* node = nullptr;    // null: the key has no owner
  std::uint16_t slot = 0;  // if they are sent by slot

  bool operator==(const Route&) const = default;
};

class Router {
 public:
  virtual ~Router() = default;

  virtual Route RouteOf(std::string_view key, Routing routing) const = 0;
  virtual void SendTo(Node* node, PendingPtr check) = 0;
  virtual void ResetAt(Node* node, StoreReset& reset) = 0;
  virtual Settler& settler() = 0;
};

}  // namespace sluice::redis
