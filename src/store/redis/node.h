// One Redis server as seen by one io thread: a connection, and the checks in progress.
//
//   Submit ──▶ queue_ ──flush: 64 entries at most─▶ in_flight_ ──reply──▶ OnDecided
//              (equal checks are coalesced)             (calls that await their reply)
//
// If no script call is outstanding, the checks queued during a loop iteration are sent at its end,
// in one script call; otherwise they wait for the reply. A full pack is sent immediately, but at
// most one beside the first. There is no timer: Redis decides coalesced checks at the price of one,
// and a call costs as much as ten checks even if it carries one.
//
// Loop thread only. Dispose of it after Stop: see net::Flushable.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/loop.h"
#include "net/timer_wheel.h"
#include "store/redis/check_queue.h"
#include "store/redis/connection.h"
#include "store/redis/node_owner.h"
#include "store/redis/pack.h"
#include "store/redis/redis_metrics.h"
#include "store/redis/script_call.h"
#include "store/redis/server.h"
#include "store/store.h"

namespace sluice::redis {

struct NodeOptions {
  // The maximum number of checks that may wait per io thread, if Redis answers that many within
  // half of `timeout`; further checks fail with kOverloaded.
  std::size_t max_pending = 10'000;
  // `redis.timeout`: a longer call opens the breaker. Also the extra time that a check gets, once,
  // if the loop itself was late.
  Duration timeout = std::chrono::milliseconds(10);
  // If calls are outstanding and a connection is silent for this long, it is closed.
  Duration silence = std::chrono::milliseconds(50);
  // Null: Redis' own time. Otherwise this clock, for a Redis whose scripts may not read the time.
  // It must outlive the node, and all servers' clocks should agree.
  const Clock* clock = nullptr;
  // Optional; must outlive the node.
  StoreListener* listener = nullptr;
  // Optional; must outlive the node.
  MetricsRegistry* metrics = nullptr;
  // REQUIRED for rediss. Must outlive the node.
  const net::TlsClientContext* tls = nullptr;
  // The name that servers' certificates must have; empty: the hosts connected to.
  std::string tls_server_name;
  // Null: the URL's password. Otherwise it must outlive the node.
  const Secret* password = nullptr;
};

// Shared by the nodes of one io thread. The referenced objects must outlive the nodes.
struct NodeContext {
  net::Loop& loop;
  NodeOwner& owner;
  MetricsRegistry& metrics;
  ServerAccess access;
  bool clustered = false;  // each node owns only some slots
  bool inspects = false;   // send Inspection's query; true for one io thread
  NodeOptions options;
};

class Node final : public net::Flushable, private Connection::Owner {
 public:
  // Whether checks submitted before the first connection attempt has ended fail or wait.
  enum class WhenUnconnected : std::uint8_t { kFail, kWait };

  // Starts to connect immediately. `context` and `server` must outlive the node.
  Node(const NodeContext& context, const Address& address, Server& server,
       WhenUnconnected when_unconnected = WhenUnconnected::kFail);

  void Submit(StoreCheck& check);
  // Like Submit, for a check that another node has not run.
  void SubmitAgain(StoreCheck& check);
  // `asking`: its slot is being migrated to this node.
  void Reset(StoreReset& reset, bool asking = false);
  void Undo(const StoreCheck& check);

  // Sends it, or keeps it until it can be sent.
  void Send(std::unique_ptr<DetachedUndo> undo);
  void OnUndone(std::unique_ptr<DetachedUndo> undo);

  const Address& address() const { return address_; }

  // Removes the queued checks for which `takes` returns true; see CheckQueue::TakeIf.
  void HandOver(const std::function<bool(StoreCheck&)>& takes);

  // Returns unsent checks to the owner, as redirects without an error, and accepts no more.
  // In-order checks stay queued while one is in flight, since a redirect may send that one
  // elsewhere first.
  void Retire();
  // Whether checks can be sent to it.
  bool reachable() const { return connection_.ready() && breaker_.closed(); }
  // Whether no reply is awaited.
  bool idle() const { return in_flight_.empty(); }

  // Fails and returns all waiting checks and those submitted later. Permanent. May be repeated.
  void Stop();

 private:
  // A command that awaits its reply: a script call, an UNLINK, or, without either, a SCRIPT LOAD,
  // an ASKING or the question of an inspection.
  struct Awaited {
    SteadyTime sent;
    SteadyTime due;  // from then on it is overdue
    std::unique_ptr<Pack> pack;
    StoreReset* reset = nullptr;  // null if none, or if it has already timed out
    bool loads_script = false;
    bool asks = false;
    bool inspects = false;
    bool deadline_extended = false;  // `due` has been put off
  };

  static constexpr std::size_t kMaxPacksInFlight = 2;
  // Packs of a single slot are small.
  static constexpr std::size_t kMaxSlotPacksInFlight = 16;
  // At least this many checks may always wait: those of one message.
  static constexpr std::size_t kFewestWaiting = 1000;

  // Tests in the background whether Redis answers in time and accepts a write.
  class Probe final : public StoreCheck {
   public:
    explicit Probe(Node& node);

   private:
    void OnDecided() override { node_.OnProbed(!failure()); }

    friend class Node;
    Node& node_;
    std::string key_;
    const Limit limit_;
  };

  // Sending.
  void Flush() override;
  bool MaySend() const;
  bool WaitsForPackInFlight(const CheckQueue::Entry& entry) const;
  bool MayJoin(const CheckQueue::Entry& entry, const Pack& pack) const;
  void SendQueued();
  std::unique_ptr<Pack> TakeSpare();
  void EncodeCall(Pack& pack);
  void SendPack(std::unique_ptr<Pack> pack);
  void SendAgain(std::unique_ptr<Pack> pack);

  // Replies.
  void OnReady() override;
  ReplySize LargestReply() const override;
  void OnReply(const redisReply& reply) override;
  void OnDown(std::string_view cause) override;
  void OnFailedAttempt(std::string_view cause) override;
  std::optional<Address> AddressToTry() override { return address_; }
  void OnPackReply(std::unique_ptr<Pack> pack, const redisReply& reply);
  bool Deliver(Pack& pack, const redisReply& reply);
  bool DeliverEntry(Pack& pack, const Pack::Entry& entry, ScriptReply& reply);
  void OnResetReply(StoreReset* reset, const redisReply& reply);
  void NoteError(std::string_view error);
  void NoteNotRun(std::string_view error);
  void Recycle(std::unique_ptr<Pack> pack);

  void Inspect();

  void Enqueue(StoreCheck& check);

  // Redirects to other nodes; in node_redirect.cc.
  void QueueAsking();
  bool AwaitsInOrder() const;
  bool MayRedirect(std::string_view error) const;
  void RedirectPack(Pack& pack, std::string_view error);
  void Redirect(StoreCheck& check, std::string_view error);

  // Checks whose owners have been answered; in node_late.cc.
  class Late;
  StoreCheck& ReplaceByLate(StoreCheck*& slot);
  void OnLateReply(const Late& late);
  void Defer(std::unique_ptr<DetachedUndo> undo);
  void SendDeferredUndos();

  // Handling of a failing Redis; in node_breaker.cc.
  void OpenBreaker(std::string_view cause);
  void FailQueued();
  void WatchBreaker();
  void OnProbeTime();
  void SendProbe();
  void OnProbed(bool answered_in_time);
  void NoteAnswered(std::size_t checks);

  // Deadlines; in node_deadlines.cc.
  void ArmTimer(SteadyTime deadline);
  void OnTimer();
  void ExtendDeadlines();
  void FailOverdue();
  StoreCheck* TakeInFlight(SteadyTime until);
  SteadyTime NextDeadline() const;

  // Fails the check and returns it to its owner.
  void Fail(StoreCheck& check, StoreFailure failure);
  void FailList(StoreCheck* first, StoreFailure failure);
  void FailPack(Pack& pack, StoreFailure failure);
  void FailAll();
  static void Finish(StoreReset& reset, std::optional<StoreFailure> failure);

  net::Loop& loop_;
  NodeOwner& owner_;
  const Address address_;
  ServerStatus& status_;
  Breaker& breaker_;
  Inspection* inspection_;  // null if another node of the server sends its query
  const NodeOptions options_;
  const bool clustered_;
  bool must_declare_ = false;  // the server rejects undeclared keys
  bool waits_to_connect_;
  bool retired_ = false;
  bool stopped_ = false;
  RedisMetrics metrics_;
  Connection connection_;
  net::Timer timer_;  // at the earliest deadline, or before
  net::Timer inspect_timer_;
  net::Timer probe_timer_;  // when to look whether the breaker has closed, and to probe if not
  Probe probe_{*this};
  CallCounts tally_;
  CheckQueue queue_;
  std::vector<Awaited> in_flight_;  // oldest first
  std::size_t packs_in_flight_ = 0;
  bool loading_script_ = false;
  std::size_t waiting_ = 0;  // checks queued or in flight
  std::size_t most_waiting_;
  // Checks answered in the current half of `timeout`, and in the previous one.
  std::size_t answered_ = 0;
  std::size_t answered_before_ = 0;
  SteadyTime half_began_;
  SteadyTime last_reply_;
  std::string_view restart_cause_;  // an error in the current reply that requires a new connection
  ScriptCall script_call_;
  std::vector<std::string_view> arguments_;
  EntryReply entry_reply_;
  std::vector<std::unique_ptr<Pack>> spare_;
  std::vector<std::unique_ptr<DetachedUndo>> deferred_undos_;  // until Redis is available
};

}  // namespace sluice::redis
