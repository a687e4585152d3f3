// One Redis server as one io thread sees it: a connection, and the checks on their way.
//
//   Submit ──▶ gathering_ ──flush: 64 runs at most──▶ in_flight_ ──reply──▶ OnDecided
//              (equal checks become one run)          (calls that await their reply)
//
// What a turn of the loop has taken in goes out at its end, in one script call, if no script call
// is outstanding; else it gathers until the reply. A full pack goes at once, one at most beside the
// first. There is no timer to wait for: Redis decides a run of equal checks at the price of one,
// and a call costs as much as ten checks even if it carries one.
//
// Loop thread only. To be disposed of after Stop: see net::Flushable.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/loop.h"
#include "net/timer_wheel.h"
#include "store/redis/connection.h"
#include "store/redis/gathering.h"
#include "store/redis/node_owner.h"
#include "store/redis/pack.h"
#include "store/redis/redis_metrics.h"
#include "store/redis/script_call.h"
#include "store/redis/server.h"
#include "store/store.h"

namespace sluice::redis {

struct NodeOptions {
  // Checks that may wait for an answer, for each io thread, if Redis answers so many within half of
  // `timeout`; beyond, they fail with kOverloaded.
  std::size_t max_pending = 10'000;
  // `redis.timeout`: a call that takes longer opens the breaker. Also the time a check is given
  // again, once, if the loop itself was late.
  Duration timeout = std::chrono::milliseconds(10);
  // A connection that has been silent for so long with calls outstanding is given up.
  Duration silence = std::chrono::milliseconds(50);
  // Null: time is Redis' own. Else this clock's, for a Redis whose scripts may not ask for the
  // time; must outlive the node, and all servers' clocks should agree.
  const Clock* clock = nullptr;
  // Null: nobody. Else must outlive the node.
  LateAnswers* late_answers = nullptr;
  // Null: no metrics. Else must outlive the node.
  MetricsRegistry* metrics = nullptr;
  // REQUIRED for rediss. Must outlive the node.
  const net::TlsClientContext* tls = nullptr;
  // What servers' certificates must be for; empty: the hosts connected to.
  std::string tls_server_name;
};

// What the nodes of one io thread have in common. All of it must outlive them.
struct NodeContext {
  net::Loop& loop;
  NodeOwner& owner;
  MetricsRegistry& metrics;
  Access access;
  bool clustered = false;  // each owns some slots only
  NodeOptions options;
};

class Node final : public net::Flushable, private Connection::Owner {
 public:
  // What is submitted before the first attempt to connect has ended fails, or waits for it.
  enum class AtFirst : std::uint8_t { kFail, kWait };

  // Begins to connect at once. `context` and `server` must outlive the node.
  Node(const NodeContext& context, const Address& address, Server& server,
       AtFirst at_first = AtFirst::kFail);

  void Submit(StoreCheck& check);
  // As Submit, of a check that another node has not run.
  void SubmitAgain(StoreCheck& check);
  // `asking`: its slot is on its way to this node.
  void Reset(StoreReset& reset, bool asking = false);
  void Undo(const StoreCheck& check);

  // Sends it, or keeps it until it can be sent.
  void Send(std::unique_ptr<TakeBack> take_back);
  void OnTakenBack(std::unique_ptr<TakeBack> take_back);

  const Address& address() const { return address_; }

  // Hands what has not been sent to the owner, as redirects without a reason, and takes no more.
  void Retire();
  // Whether no reply is awaited.
  bool idle() const { return in_flight_.empty(); }

  // Hands back all that waits, and fails what is submitted from then on. For good.
  void Stop();

 private:
  // A command that awaits its reply: a script call, an UNLINK, or, without either, a SCRIPT LOAD or
  // an ASKING.
  struct Awaited {
    SteadyTime sent;
    SteadyTime due;  // from then on it is overdue
    std::unique_ptr<Pack> pack;
    StoreReset* reset = nullptr;  // null: answered already, its deadline having passed
    bool loads_script = false;
    bool asks = false;
    bool waits_anew = false;  // `due` has been put off
  };

  static constexpr std::size_t kMaxPacksInFlight = 2;
  // Packs of one slot carry little.
  static constexpr std::size_t kMaxSlotPacksInFlight = 16;
  // So many checks may always wait: those of one message.
  static constexpr std::size_t kFewestWaiting = 1000;

  // Asks Redis in the background whether it answers in time, and takes a write.
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
  bool WaitsForPackInFlight(const Gathering::Run& run) const;
  bool MayJoin(const Gathering::Run& run, const Pack& pack) const;
  void SendGathered();
  std::unique_ptr<Pack> TakeSpare();
  void EncodeCall(Pack& pack);
  void SendPack(std::unique_ptr<Pack> pack);
  void SendAgain(std::unique_ptr<Pack> pack);

  // Replies.
  void OnReady() override;
  void OnReply(const redisReply& reply) override;
  void OnDown() override;
  void OnFailedAttempt() override;
  std::optional<Address> AddressToTry() override { return address_; }
  void OnPackReply(std::unique_ptr<Pack> pack, const redisReply& reply);
  bool Deliver(Pack& pack, const redisReply& reply);
  bool DeliverRun(Pack& pack, const Pack::Run& run, ScriptReply& reply);
  void OnResetReply(StoreReset* reset, const redisReply& reply);
  void NoteError(std::string_view error);
  void Recycle(std::unique_ptr<Pack> pack);

  void Gather(StoreCheck& check);

  // What other nodes are to do; in node_redirect.cc.
  void QueueAsking();
  bool MayRedirect(std::string_view error) const;
  void RedirectPack(Pack& pack, std::string_view error);
  void Redirect(StoreCheck& check, std::string_view error);

  // What is left of checks whose owners have been answered; in node_late.cc.
  class Late;
  StoreCheck& ReplaceByLate(StoreCheck*& slot);
  void OnLateReply(const Late& late);
  void PutOff(std::unique_ptr<TakeBack> take_back);
  void TakeBackPutOff();

  // What is done when Redis is not worth asking; in node_breaker.cc.
  void OpenBreaker(std::string_view cause);
  void FailGathered();
  void WatchBreaker();
  void OnProbeTime();
  void SendProbe();
  void OnProbed(bool answered_in_time);
  void NoteAnswered(std::size_t checks);

  // Deadlines; in node_deadlines.cc.
  void ArmTimer(SteadyTime deadline);
  void OnTimer();
  void WaitAnew();
  void FailOverdue();
  StoreCheck* TakeInFlight(SteadyTime until);
  SteadyTime NextDeadline() const;

  // A failed check is its owner's again from then on.
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
  const NodeOptions options_;
  const bool clustered_;
  bool must_declare_ = false;  // the server lets no script touch other keys
  bool waits_to_connect_;
  RedisMetrics metrics_;
  Connection connection_;
  net::Timer timer_;        // at the earliest deadline, or before
  net::Timer probe_timer_;  // when to look whether the breaker has closed, and to probe if not
  Probe probe_{*this};
  CallTally tally_;
  Gathering gathering_;
  std::vector<Awaited> in_flight_;  // oldest first
  std::size_t packs_in_flight_ = 0;
  bool loading_script_ = false;
  std::size_t waiting_ = 0;  // checks gathered or in flight
  std::size_t most_waiting_;
  // Checks answered in the present half of `timeout`, and in the one before.
  std::size_t answered_ = 0;
  std::size_t answered_before_ = 0;
  SteadyTime half_began_;
  SteadyTime last_reply_;
  std::string_view restart_cause_;  // an error in the reply at hand that wants a new connection
  ScriptCall script_call_;
  std::vector<std::string_view> arguments_;
  RunReply run_reply_;
  std::vector<std::unique_ptr<Pack>> spare_;
  std::vector<std::unique_ptr<TakeBack>> put_off_;  // until Redis can be asked
};

}  // namespace sluice::redis
