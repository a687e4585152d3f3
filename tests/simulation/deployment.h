// The Redis of a schedule: one node; a master and its standby with sentinels; or a cluster of three
// masters, each with a standby. Masters fail over, and slots move.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/redis_url.h"
#include "tests/simulation/redis_server.h"
#include "tests/simulation/sentinel_server.h"
#include "tests/simulation/slot_map.h"

namespace sluice::simulation {

class Deployment {
 public:
  enum class Loss { kFailover, kReset };
  // Called at a failover with the counters of the old master and of the promoted standby, and after
  // a reset with the counters before and after it.
  using OnTakeOver = std::function<void(const Script::Counters& master,
                                        const Script::Counters& standby, Loss loss)>;

  // `script` must outlive this.
  Deployment(World& world, RedisUrl::Kind kind, const Script& script, OnTakeOver on_take_over);

  const RedisUrl& url() const { return url_; }

  // See Connector.
  std::shared_ptr<Link> Connect(const Address& address, const LinkOptions& options);

  RedisServer& AnyServer() { return *servers_[world_.Below(servers_.size())]; }

  // Starts a fault of Sentinel or the cluster. The fault ends by itself.
  void Disturb();
  // If this is a cluster, starts to move a slot to another master.
  void MoveSlot() {
    if (slots_) BeginMove();
  }
  // Ends the faults that do not end by themselves.
  void Heal();

  void Plant(Planted fault) {
    planted_ = fault;
    for (auto& server : servers_) server->Plant(fault);
  }

  std::int64_t failovers() const { return failovers_; }
  std::int64_t moved_slots() const { return moved_slots_; }

  // Calls `visit` for every master, with the master's counters.
  template <typename Visit>
  void ForEachMaster(const Visit& visit) const {
    for (const Shard& shard : shards_) visit(shard.master->counters());
  }

 private:
  struct Shard {
    RedisServer* master;
    RedisServer* standby;  // null: none
    bool fails_over = false;
  };

  RedisServer& AddServer();
  void FailOver(std::size_t shard);
  void Lose(std::size_t shard, std::optional<Script::Counters> replicated);
  void Promote(std::size_t shard, Script::Counters counters);
  void BeginMove();
  void MoveOneKey(const std::string& of_slot, std::size_t from, std::size_t to);

  World& world_;
  const Script& script_;
  const OnTakeOver on_take_over_;
  RedisUrl url_;
  std::unique_ptr<SlotMap> slots_;  // of a cluster
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<SentinelServer>> sentinels_;
  Planted planted_ = Planted::kNothing;
  std::int64_t failovers_ = 0;
  std::int64_t moved_slots_ = 0;
};

}  // namespace sluice::simulation
