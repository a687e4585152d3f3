// The servers of a schedule, their callers, their Redis and their faults, all generated from the
// seed.
//
// One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/caller.h"
#include "tests/simulation/deployment.h"
#include "tests/simulation/network.h"
#include "tests/simulation/redis_server.h"
#include "tests/simulation/rules.h"
#include "tests/simulation/sluice_server.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

class Fleet {
 public:
  static constexpr std::int64_t kServers = Rules::kServers;

  // Servers start with the first version of `rules`. `rules` and `script` must outlive this object.
  Fleet(World& world, const Rules& rules, const Script& script, Deployment::OnTakeOver on_take_over,
        Planted planted);

  const Deployment& redis() const { return redis_; }

  // A caller that is connected to `server`: the current one, or sometimes a new one.
  Caller& CallerOf(std::int64_t server);

  // Starts one fault, which ends by itself or with Heal().
  void StartFault();
  void Heal() { redis_.Heal(); }

  void Stall();  // one of the servers
  void MoveSlot() { redis_.MoveSlot(); }

  // Resets the counters of a subject in Redis, by a request to one of the servers.
  void Reset(const Subject& subject) { servers_[world_.Below(kServers)]->Reset(subject); }

  // Gives the latest version of the rules to each server, at different times.
  void Reload();

  // The versions of the rules that a server has had since a time.
  std::vector<int> VersionsSince(std::int64_t server, SteadyTime since) const;

  // What a server remembers as the state of a counter.
  std::optional<SeenState> Seen(std::int64_t server, const std::string& key) const {
    return servers_[static_cast<std::size_t>(server)]->Seen(key);
  }

  // The maximum time that the network takes for a request and its answer.
  Duration network_time() const { return (links_.splits ? 400 : 20) * links_.most_delay; }
  // Whether a healthy Redis may seem too slow, because its bytes arrive one by one.
  bool is_slow() const { return links_.splits; }
  // How often the server crashed.
  std::int64_t CrashesOf(std::int64_t server) const {
    return crashes_[static_cast<std::size_t>(server)];
  }
  std::int64_t crashes() const { return std::accumulate(crashes_.begin(), crashes_.end(), 0); }
  // The total time for which servers were stalled.
  Duration stalls() const { return stalls_; }

  // Whether a server crashed, or had to give up an attempt to learn the outcome of a call or to
  // undo a call.
  bool IsInDoubt() const;
  // The sum of SluiceServer::unknown_units of all servers.
  std::int64_t unknown_units() const {
    return std::accumulate(servers_.begin(), servers_.end(), std::int64_t{0},
                           [](auto sum, const auto& it) { return sum + it->unknown_units(); });
  }

  // Whether the server may have sent a charge without learning whether the store ran it.
  bool MayHaveUnknownCharges(std::int64_t server) const {
    return CrashesOf(server) > 0 || servers_[static_cast<std::size_t>(server)]->HasUnknownCharges();
  }

  // Disconnects all callers. Returns the number of answers that were not whole messages.
  int DisconnectCallers();
  // Stops every server. Returns false if one of them still keeps state of a call.
  bool Stop();

 private:
  std::unique_ptr<SluiceServer> MakeServer(std::size_t server);
  void Crash(std::size_t server);
  void DrainAndCrash(std::size_t server);
  std::shared_ptr<Link> ToRedis(const Address& address, int from);

  World& world_;
  const Rules& rules_;
  Deployment redis_;
  const Planted planted_;
  LinkOptions links_;
  std::vector<std::unique_ptr<SluiceServer>> servers_;
  std::vector<std::vector<std::unique_ptr<Caller>>> callers_;  // by server
  std::vector<std::shared_ptr<Link>> redis_links_;
  struct Reloaded {
    SteadyTime at;
    int version;
  };
  std::vector<std::vector<Reloaded>> reloads_;  // by server, oldest first
  std::vector<std::int64_t> crashes_;           // by server
  Duration stalls_{};
};

}  // namespace sluice::simulation
