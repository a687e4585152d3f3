// A Redis server of the simulation: RESP in, RESP out, the check script by the algorithms of core.
// It can hang, die and come back with its memory, forget its scripts, and be slow.
//
// One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/network.h"
#include "tests/simulation/script.h"
#include "tests/simulation/world.h"
#include "tests/store/resp.h"

namespace sluice::simulation {

class RedisServer {
 public:
  RedisServer(World& world, std::span<const Limit> limits);
  ~RedisServer();

  // A new connection, as Connector has it.
  std::shared_ptr<Link> Accept(const LinkOptions& options);

  // Runs nothing until Resume; commands wait.
  void Hang() { hangs_ = true; }
  void Resume();
  // Closes all connections and refuses others until Start. Counters are kept, scripts are not.
  void Kill();
  void Start() { runs_ = true; }
  // Neither accepts nor refuses connections.
  void Vanish(bool vanished) { vanished_ = vanished; }
  void FlushScripts() { has_script_ = false; }
  // Answers scripts with `error`, having run nothing; empty: no more.
  void FailScripts(std::string error) { error_ = std::move(error); }
  void SetSlow(Duration per_command) { per_command_ = per_command; }
  void CutConnections();
  WorldClock& clock() { return clock_; }

  // Faults that a correct server does not have, for tests of the simulation itself.
  enum class Planted { kNothing, kRepliesSwapped, kGrantsUncounted, kCallsRunTwice };
  void Plant(Planted fault) { planted_ = fault; }

  // What the counters hold now, in units; slots of leases that hold.
  std::int64_t Used(const std::string& key_part) const;

 private:
  class Session;
  struct Command {
    std::weak_ptr<Session> session;
    test::RedisCommand words;
  };

  void Enqueue(Command command);
  void RunNext();
  std::string Execute(const test::RedisCommand& words);
  std::string RunScript(const test::RedisCommand& words);

  World& world_;
  const Script script_;
  WorldClock clock_;
  Script::Counters counters_;
  std::vector<std::shared_ptr<Session>> open_;
  std::deque<Command> commands_;
  std::string swapped_;  // a reply held back by kRepliesSwapped
  std::string error_;
  Duration per_command_ = Duration(20);
  Planted planted_ = Planted::kNothing;
  bool runs_ = true;
  bool hangs_ = false;
  bool vanished_ = false;
  bool busy_ = false;
  bool has_script_ = false;
};

}  // namespace sluice::simulation
