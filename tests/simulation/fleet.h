// The servers of a schedule, their callers and their Redis, all generated from the seed, and their
// faults.
//
// One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "match/rule.h"
#include "tests/simulation/caller.h"
#include "tests/simulation/deployment.h"
#include "tests/simulation/network.h"
#include "tests/simulation/redis_server.h"
#include "tests/simulation/sluice_server.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

class Fleet {
 public:
  static constexpr std::int64_t kServers = 2;

  // `planted` is a fault of every Redis server.
  Fleet(World& world, Deployment::OnTakeOver on_take_over, RedisServer::Planted planted);

  const Deployment& redis() const { return redis_; }
  OnStoreFailure policy() const { return policy_; }  // of every rule

  // The caller that is connected to `server`; now and then a new one.
  Caller& CallerOf(std::int64_t server);

  // Starts one fault, which ends by itself or with Heal().
  void StartFault();
  void Heal() { redis_.Heal(); }

  // The maximum time that the network takes for a request and its answer.
  Duration network_time() const { return (links_.splits ? 400 : 20) * links_.most_delay; }
  // The total time for which servers were stalled.
  Duration stalls() const { return stalls_; }

  // Whether a server had to give up an attempt to learn the outcome of a call, or to undo one.
  bool IsInDoubt() const;

  // Disconnects all callers. Returns the number of answers that were not whole messages.
  int DisconnectCallers();
  // Stops every server. Returns whether none of them keeps state of any call.
  bool Stop();

 private:
  std::shared_ptr<Link> ToRedis(const Address& address);

  World& world_;
  Deployment redis_;
  LinkOptions links_;
  OnStoreFailure policy_;
  std::vector<std::unique_ptr<SluiceServer>> servers_;
  std::vector<std::vector<std::unique_ptr<Caller>>> callers_;  // by server
  std::vector<std::shared_ptr<Link>> redis_links_;
  Duration stalls_{};
};

}  // namespace sluice::simulation
