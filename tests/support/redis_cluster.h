// A Redis Cluster of real processes on free ports. The masters share the slots, and each has the
// same number of replicas. Masters can be added, and slots can be moved.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/redis_server.h"

namespace sluice::test {

class RedisCluster {
 public:
  struct Options {
    int masters = 3;
    bool tls = false;                    // between clients and nodes, and among nodes
    int replicas = 0;                    // of each master
    std::string node_timeout = "5000";   // ms; long, since a busy machine answers late
    std::vector<std::string> arguments;  // of each redis-server
  };

  // Returns when all nodes know each other and the cluster accepts commands.
  explicit RedisCluster(const Options& options);

  // Adds a master without slots. Waits until all nodes know it. Returns its index.
  std::size_t AddMaster();

  // Order of nodes: the initial masters, their replicas, the added nodes.
  RedisServer& node(std::size_t index) { return *nodes_[index]; }
  std::size_t size() const { return nodes_.size(); }

  // A URL with the first two nodes. `login`, such as "sluice:secret@", precedes the hosts.
  std::string Url(const std::string& login = "") const;

  // The index of the node that owns a slot, according to the first live node.
  std::size_t OwnerOf(std::uint16_t slot);

  // The steps to move a slot: BeginMove, MoveKeys once or repeatedly, FinishMove. Move does
  // all of these.
  void BeginMove(std::uint16_t slot, std::size_t to);
  // Moves at most `count` keys. Returns the number of moved keys.
  std::size_t MoveKeys(std::uint16_t slot, std::size_t to, std::size_t count = 1000);
  void FinishMove(std::uint16_t slot, std::size_t to);
  void Move(std::uint16_t slot, std::size_t to);

  // Waits until each node knows the owner of each slot. After CLUSTER ADDSLOTS on one node, the
  // other nodes learn the new owner from that node's next ping.
  void AwaitAllSlotsServed();

  // Kills a node, as a crash would. From then on, OwnerOf, AwaitAllSlotsServed and Flush skip it.
  void Kill(std::size_t index);

  // Empties all masters.
  void Flush();

 private:
  void AddNode();
  void Join(std::size_t index);
  void MakeReplicas(int masters);
  std::string IdOf(std::size_t index);
  std::uint64_t EpochOf(std::size_t index);

  const bool tls_;
  const std::string node_timeout_;
  const std::vector<std::string> arguments_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<bool> alive_;
};

}  // namespace sluice::test
