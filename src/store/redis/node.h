// One Redis node as seen by one io thread: a connection, and the checks in progress.
//
//   Submit ──▶ Packer ──flush: 64 entries at most─▶ InFlight ──reply──▶ OnDecided
//              (equal checks are coalesced)         (commands that await their reply)
//
// Loop thread only. Dispose of it after Stop: see net::Flushable.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/breaker_probe.h"
#include "store/redis/connection.h"
#include "store/redis/in_flight.h"
#include "store/redis/inspection.h"
#include "store/redis/packer.h"
#include "store/redis/pending_check.h"
#include "store/redis/redis_metrics.h"
#include "store/redis/script_call.h"
#include "store/redis/server_state.h"
#include "store/redis/settler.h"
#include "store/redis/waiting_limit.h"
#include "store/store.h"

namespace sluice::redis {

struct NodeOptions {
  // The maximum number of checks that may wait for one node, per io thread. If Redis is slow, the
  // limit is lower: see WaitingLimit. Further checks fail with kOverloaded.
  std::size_t max_pending = 10'000;
  // `redis.timeout`: a call that takes longer opens the breaker. Also the extra time that a check
  // gets, once, if the loop itself was late.
  Duration timeout = std::chrono::milliseconds(10);
  // A connection with outstanding calls is closed if it is silent for this long.
  Duration silence = std::chrono::milliseconds(50);
  // Null: the script reads Redis' clock. Otherwise the script gets the time of this clock, for a
  // Redis whose scripts may not read the time. The clock must outlive the node, and all servers'
  // clocks should agree.
  const Clock* clock = nullptr;
  // Optional; must outlive the node.
  StoreListener* listener = nullptr;
  // Optional; must outlive the node.
  MetricsRegistry* metrics = nullptr;
  // REQUIRED for rediss. Must outlive the node.
  const net::TlsClientContext* tls = nullptr;
  // The name that the nodes' certificates must have. Empty: the host of each connection.
  std::string tls_server_name;
  // Null: the password, if any, is in the URL. Otherwise, the object must outlive the node.
  const Secret* password = nullptr;
};

class Node;

// The store that contains a node.
class NodeOwner {
 public:
  virtual ~NodeOwner() = default;

  // `node` has not run the check (or reset): `error` is a redirect, or says that a key is not on
  // this node, or that the node rejects undeclared keys. If `error` is empty, the node is retired.
  virtual void OnRedirect(Node& node, PendingPtr check, std::string_view error) = 0;
  virtual void OnRedirect(Node& node, StoreReset& reset, std::string_view error) = 0;

  // OnRedirect has been called for all redirected checks of one reply. The owner now takes over the
  // queued checks that must follow the redirected ones.
  virtual void OnRedirected(Node& node) = 0;

  // A node has answered CLUSTERDOWN, so the layout may have changed.
  virtual void OnLayoutSuspect() = 0;

  // The connection of `node` is lost, or connecting or logging in has failed. `lost`: the
  // connection is lost, or no io thread is connected to this Redis.
  virtual void OnUnreachable(const Node& node, bool lost) = 0;

  // Checks can now be sent to `node`: it is connected and its breaker is closed.
  virtual void OnReachable(const Node& node) = 0;

  // The key of the counter that the next probe of `node` charges. In a Cluster, each call returns
  // another key.
  virtual std::string ProbeKey(const Node& node) = 0;
};

// Shared by the nodes of one io thread. The referenced objects must outlive the nodes.
struct NodeContext {
  net::Loop& loop;
  NodeOwner& owner;
  Settler& settler;
  MetricsRegistry& metrics;
  ServerAccess access;
  bool clustered = false;  // each node owns only some slots
  bool inspects = false;   // sends Inspection's query; true for one io thread
  NodeOptions options;
};

class Node final : public net::Flushable, private Connection::Owner, private BreakerProbe::Owner {
 public:
  // What happens to checks that are submitted before the first connection attempt has ended: they
  // fail, or they wait.
  enum class WhenUnconnected : std::uint8_t { kFail, kWait };

  // Starts to connect immediately. `context` and `server` must outlive the node.
  Node(const NodeContext& context, const Address& address, ServerState& server,
       WhenUnconnected when_unconnected = WhenUnconnected::kFail);

  void Submit(PendingPtr pending);
  void Submit(StoreCheck& check) { Submit(std::make_unique<PendingCheck>(check)); }
  // `asking`: the slot of the reset's keys is being migrated to this node.
  void Reset(StoreReset& reset, bool asking = false);

  const Address& address() const { return address_; }
  bool has_in_order_in_flight() const { return in_flight_.HasInOrder(); }

  // Removes the queued checks for which `takes` returns true; see CheckQueue::RemoveIf.
  PendingChecks RemoveQueuedIf(const std::function<bool(const PendingCheck&)>& takes);

  // Returns unsent checks to the owner, as redirects without an error, and sends no more. While an
  // in-order check is in flight, queued in-order checks stay, because Redis may still redirect the
  // check in flight to another node, and the queued checks must not overtake it.
  void Retire();
  // Whether checks can be sent to this node.
  bool reachable() const { return connection_.ready() && breaker_.closed(); }
  // Whether this node awaits no reply.
  bool idle() const { return in_flight_.empty(); }

  // Fails and returns all waiting checks, and checks that are submitted later. Permanent. May be
  // repeated.
  void Stop();

 private:
  using Kind = InFlightCommand::Kind;

  // Sending.
  void Flush() override;
  void SendPack(std::unique_ptr<Pack> pack);
  void SendAgain(std::unique_ptr<Pack> pack);
  void Send(std::span<const std::string_view> arguments, InFlightCommand command);
  void Ask();
  void Inspect();

  // Replies.
  void OnReady() override;
  ReplySize LargestReply() const override;
  void OnReply(const redisReply& reply) override;
  void OnDown(std::string_view cause) override;
  void OnFailedAttempt(std::string_view cause) override;
  std::optional<Address> AddressToTry() override { return address_; }
  void OnPackReply(std::unique_ptr<Pack> pack, const redisReply& reply);
  bool DeliverAnswers(Pack& pack, const redisReply& reply);
  bool DeliverAnswers(CheckQueue::Entry& entry, ScriptReply& reply);
  void OnEntryFailed(CheckQueue::Entry& entry, std::string_view error);
  void OnResetReply(StoreReset* reset, const redisReply& reply);
  void NoteError(std::string_view error);
  void NoteNotRun(std::string_view error);

  // For checks that Redis has not run, because their keys are at another node or undeclared.
  bool MayRedirect(std::string_view error) const;
  void RedirectPack(Pack& pack, std::string_view error);
  void Redirect(PendingPtr pending, std::string_view error);

  // For a Redis that does not answer in time.
  void ArmTimer(SteadyTime deadline);
  void OnTimer();
  void FailOverdue();
  void OpenBreaker(std::string_view cause);
  void FailQueued();
  std::vector<StoreCheck*> DetachInFlight(SteadyTime until);
  bool CanSendProbe() const override { return connection_.ready(); }
  std::string ProbeKey() override { return owner_.ProbeKey(*this); }
  void SendProbe(PendingPtr probe) override;
  void OnBreakerClosed() override;

  // Fails checks and returns them to their owners.
  void Fail(StoreCheck& check, StoreFailure failure) const;
  void Fail(PendingPtr pending, StoreFailure failure);
  void Fail(PendingChecks checks, StoreFailure failure);
  void FailPack(Pack& pack, StoreFailure failure);
  void FailAll();

  net::Loop& loop_;
  NodeOwner& owner_;
  Settler& settler_;
  const Address address_;
  ServerStatus& status_;
  Breaker& breaker_;
  std::optional<Inspection> inspection_;  // empty if another io thread queries the node
  const NodeOptions options_;
  const bool clustered_;
  bool waits_to_connect_;
  bool retired_ = false;
  bool stopped_ = false;
  RedisMetrics metrics_;
  Connection connection_;
  net::Timer timer_;  // at the earliest deadline, or before
  net::Timer inspect_timer_;
  BreakerProbe probe_;
  CallCounts call_counts_;
  WaitingLimit waiting_;
  InFlight in_flight_;
  Packer packer_;
  bool loading_script_ = false;
  std::string_view restart_cause_;   // the current reply's error, if it requires a new connection
  bool entries_redirected_ = false;  // some entries of the current pack have been redirected
  EntryReply entry_reply_;
};

}  // namespace sluice::redis
