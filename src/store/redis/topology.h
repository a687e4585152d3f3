// Finds the addresses of a store's nodes, and which node owns a key. A store is one node, the
// master named by sentinels, or a Cluster.
//
// On io-0; layouts go to all io threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/address.h"
#include "net/loop.h"
#include "store/redis/connection.h"
#include "store/redis/redis_url.h"
#include "store/redis/server_status.h"

namespace sluice::redis {

// The nodes that decide checks at one time. Immutable.
struct Layout {
  static constexpr std::uint16_t kNobody = UINT16_MAX;

  // In the order of their first slots. A node that takes over all slots of another therefore also
  // takes the other's position.
  std::vector<Address> servers;
  // By hash slot: the index of the owner in `servers`, or kNobody. Empty: servers[0] owns every
  // key.
  std::vector<std::uint16_t> owners;

  bool operator==(const Layout&) const = default;
};

class Topology {
 public:
  // Called with the first layout, and with later ones, whether changed or not.
  using OnLayout = std::function<void(std::shared_ptr<const Layout>)>;

  virtual ~Topology() = default;

  virtual void Start() = 0;
  // Permanent.
  virtual void Stop() = 0;

  // A node is lost, refuses writes, or no longer owns a key, so the layout may have changed.
  virtual void OnLayoutSuspect() = 0;
};

struct TopologyContext {
  net::Loop& loop;
  ServerStatus& status;  // of the sentinels or nodes queried for the layout
  ServerAccess access;   // the access to nodes that decide checks
  Topology::OnLayout on_layout;
};

// The topology that the URL names.
std::unique_ptr<Topology> MakeTopology(const RedisUrl& url, TopologyContext context);

}  // namespace sluice::redis
