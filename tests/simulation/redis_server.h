// A Redis server of the simulation: RESP in, RESP out; it runs the check script with the algorithms
// of core. It can hang, die and come back with its memory, forget its scripts, be slow, and be a
// replica, which rejects writes. In a cluster it has only keys of its slots.
//
// One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/network.h"
#include "tests/simulation/planted.h"
#include "tests/simulation/resp_session.h"
#include "tests/simulation/script.h"
#include "tests/simulation/slot_map.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

class RedisServer {
 public:
  // `slots`: the slot map of the server's cluster; if null, the server owns all slots. `world`,
  // `script` and `slots` must outlive the server.
  RedisServer(World& world, const Script& script, const Address& address, const SlotMap* slots);
  ~RedisServer() { CutConnections(); }

  const Address& address() const { return address_; }

  // Called after counters were deleted, with all counters before and after the deletion.
  using OnReset =
      std::function<void(const Script::Counters& before, const Script::Counters& after)>;
  void NotifyOfResets(OnReset on_reset) { on_reset_ = std::move(on_reset); }

  // Accepts a new connection. See Connector.
  std::shared_ptr<Link> Accept(const LinkOptions& options);

  // Runs nothing until Resume; commands wait.
  void Hang() { hangs_ = true; }
  void Resume();
  bool hangs() const { return hangs_; }
  // Closes all connections and refuses new ones until Start. Counters are kept; scripts and waiting
  // commands are lost.
  void Kill();
  void Start() { runs_ = true; }
  bool runs() const { return runs_; }
  // If `vanished`, the server neither accepts nor refuses connections.
  void Vanish(bool vanished) { vanished_ = vanished; }
  void FlushScripts() { has_script_ = false; }
  // Answers scripts with `error` instead of running them. If `error` is empty, runs scripts again.
  void FailScripts(std::string error) { error_ = std::move(error); }
  // Calls of scripts, run or not.
  std::int64_t calls() const { return calls_; }
  void SetSlow(Duration per_command) { per_command_ = per_command; }
  void CutConnections() { RespSession::CloseAll(open_); }

  // Becomes a replica, then answers the waiting commands as a replica.
  void Demote();
  // Becomes a master with `counters`.
  void Promote(Script::Counters counters);

  Script::Counters& counters() { return counters_; }
  const Script::Counters& counters() const { return counters_; }

  void Plant(Planted fault) { planted_ = fault; }

 private:
  struct Command {
    std::weak_ptr<RespSession> session;
    int from;
    bool asking;
    test::RedisCommand words;
  };

  void Enqueue(RespSession& session, test::RedisCommand words);
  void RunNext();
  std::deque<Command> TakeCommands();
  void Answer(const Command& command);
  std::string Execute(const Command& command);
  std::string RunScript(const Command& command);
  std::string Unlink(const Command& command);
  std::string RefusalOf(std::span<const std::string> keys, bool asking);
  std::string CallScript(const Command& command, Script::Counters& counters) const;

  World& world_;
  const Script& script_;
  const Address address_;
  const SlotMap* const slots_;
  const WorldClock clock_;
  Script::Counters counters_;
  OnReset on_reset_;
  RespSession::List open_;
  std::deque<Command> commands_;
  std::int64_t calls_ = 0;
  int times_taken_ = 0;  // how often TakeCommands was called
  std::string swapped_;  // for kRepliesSwapped: the reply to an earlier call
  std::string error_;
  Duration per_command_ = Duration(20);
  Planted planted_ = Planted::kNothing;
  bool runs_ = true;
  bool hangs_ = false;
  bool vanished_ = false;
  bool busy_ = false;  // running the first command
  bool has_script_;    // random at first: another client may have loaded the script
  bool is_master_ = true;
};

}  // namespace sluice::simulation
