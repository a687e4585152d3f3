// A Redis Cluster of real processes on free ports: masters that share the slots, each with the same
// number of replicas; nodes can be added, and slots moved.
//
// One thread at a time.
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
    std::string node_timeout = "5000";   // ms; a busy machine answers late
    std::vector<std::string> arguments;  // of each redis-server
  };

  // Returns when every node knows all others and the cluster takes commands.
  explicit RedisCluster(const Options& options);

  // A master without slots. Returns its place among the nodes, when all know it.
  std::size_t AddMaster();

  // Masters first, as they were at the beginning, then their replicas, then what was added.
  RedisServer& node(std::size_t index) { return *nodes_[index]; }
  std::size_t size() const { return nodes_.size(); }

  // With what comes before the hosts: "sluice:secret@". Names the first two nodes only.
  std::string Url(const std::string& login = "") const;

  // The node that owns a slot, as the first living node sees it.
  std::size_t OwnerOf(std::uint16_t slot);

  // The steps of moving a slot: Announce, keys one by one or all, Finish.
  void BeginMove(std::uint16_t slot, std::size_t to);
  // Moves at most `count` keys. Returns how many.
  std::size_t MoveKeys(std::uint16_t slot, std::size_t to, std::size_t count = 1000);
  void FinishMove(std::uint16_t slot, std::size_t to);
  void Move(std::uint16_t slot, std::size_t to);

  // As a crash does. The node is not asked any more.
  void Kill(std::size_t index);

  // Empties all masters.
  void Flush();

 private:
  void AddNode();
  void Join(std::size_t index);
  void MakeReplicas(int masters);
  bool AllAgree();
  std::string IdOf(std::size_t index);

  const bool tls_;
  const std::string node_timeout_;
  const std::vector<std::string> arguments_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<bool> alive_;
};

}  // namespace sluice::test
