// A connection to Redis, the thread that hears it, and the checks on their way.
//
//   Submit ──push──▶ inbox_ ──drain──▶ gathering_ ──64 runs at most──▶ in_flight_ ──reply──▶
//   answers                            (equal checks                   (script calls that
//                                       become one run)                 await their reply)
//
// All behind the inbox is done in turns, by one thread at a time: replies and timers by the loop's
// thread, the way from inbox to Redis by whoever submits, or ends a burst, while nobody has the
// turn, so that a lone check is sent without waking a thread. Who finds the turn taken leaves its
// check in the inbox: whoever has the turn looks there when it is over.
//
// A check goes out at once while nothing awaits a reply; else checks gather until the reply comes
// or a pack is full. There is no timer to wait for. Two calls under way at once made packs smaller,
// and each check dearer by a tenth, and answered no sooner.
//
// When the reply comes, long runs of equal checks go on gathering while a burst may bring more of
// them: Redis decides a run at the price of one check, and a call costs as much as ten checks even
// if it carries one.
//
// Submit, Reset, bursts and WaitUntilReady: thread-safe. Everything else: in a turn.
#pragma once

#include <utility>  // Boost 1.74 needs it before Asio

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/send_together.h"
#include "base/thread.h"
#include "store/redis/connection.h"
#include "store/redis/gathering.h"
#include "store/redis/redis_metrics.h"
#include "store/redis/script_call.h"
#include "store/store.h"

namespace sluice::redis {

class RedisLoop final : private Connection::Listener {
 public:
  struct Options {
    // Checks that may wait for an answer; beyond, they fail with kOverloaded.
    std::size_t max_pending = 10'000;
    // A connection that has been silent for so long with calls outstanding is given up.
    std::chrono::milliseconds silence{50};
    // Null: time is Redis' own. Else this clock's, for a Redis whose scripts may not ask for the
    // time; must outlive the loop, and all servers' clocks should agree.
    const Clock* clock = nullptr;
    // Null: nobody looks. Else must outlive the loop.
    MetricsRegistry* metrics = nullptr;
  };

  RedisLoop(std::string name, const RedisUrl& url, const Options& options);
  ~RedisLoop() override;

  void Submit(StoreCheck& check);
  void Reset(StoreReset& reset);
  void BeginBurst();
  void EndBurst();
  bool WaitUntilReady(SteadyTime deadline);

 private:
  using Turn = Connection::Turn;

  // A command that awaits its reply: a script call, an UNLINK, or, without either, a SCRIPT LOAD.
  struct InFlight {
    struct Run {
      std::size_t begin;          // its first check in `checks`
      std::size_t n;              // checks in it
      std::size_t reply_numbers;  // to pass over, if nobody is left to hear the reply
    };
    std::vector<Run> runs;
    std::vector<StoreCheck*> checks;  // null: answered already, its deadline having passed
    StoreReset* reset = nullptr;      // what an UNLINK is for, until it has been answered
    SteadyTime sent;
  };

  // Whether checks wait for the end of a burst, and whether one has ended since.
  enum class Hold : std::uint8_t { kNone, kBurst, kBurstEnded };

  // Runs this long on average are held while a burst lasts, until there are so many checks in all:
  // with more, each is hardly cheaper, and those that hear their answers together are too many for
  // the caches.
  static constexpr std::size_t kMinHeldRun = 16;
  static constexpr std::size_t kMaxHeld = 128;

  void BeginTurn() override;
  void EndTurn() override;
  bool HasWork() const;
  void DrainUnlessTaken();
  bool HasTurn() const { return turn_of_.load() == std::this_thread::get_id(); }

  void Drain();
  void Accept(StoreCheck& check, SteadyTime now);
  void SendWhatMayGo();
  // Whether what has gathered waits for the end of a burst.
  bool DecideHold();
  void SendPack();
  void SendReset(StoreReset& reset);

  void OnReady() override;
  void OnReply(const redisReply& reply) override;
  void OnIdle() override;
  void OnDown() override;
  void OnFailedAttempt() override { metrics_.OnFailedAttempt(); }

  // From now to the end of the turn, what answers make their owners send is held, and leaves
  // together. On the loop's thread.
  void AnswerTogether();
  void Deliver(InFlight& call, const redisReply& reply);
  bool DeliverRun(InFlight& call, const InFlight::Run& run, ScriptReply& reply);
  void OnError(InFlight& call, std::string_view error);
  void SendAgain(InFlight& call);
  void ReportError(std::string_view error);

  // A failed check is its owner's again from then on.
  void Fail(StoreCheck& check, StoreFailure failure);
  void FailAll(InFlight& call, StoreFailure failure);
  static void Finish(StoreReset& reset, std::optional<StoreFailure> failure);
  void FailOverdueGathered(SteadyTime now, StoreFailure failure);
  void ArmTimer(SteadyTime deadline);
  void OnTimer();

  std::unique_ptr<InFlight> TakeSpare();
  void SetReady(bool ready);

  const Options options_;
  MetricsRegistry unseen_metrics_;  // if options name none
  RedisMetrics metrics_;
  std::atomic<StoreCheck*> inbox_{nullptr};  // newest first, linked by `next`
  std::atomic<int> bursts_{0};
  std::atomic<Hold> hold_{Hold::kNone};
  std::mutex turn_;
  std::atomic<std::thread::id> turn_of_{};
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer timer_;
  SteadyTime timer_at_ = SteadyTime::max();
  Connection connection_;
  Gathering gathering_;
  ScriptCall script_call_;
  std::vector<std::string_view> command_;
  RunReply run_reply_;
  std::optional<SendTogether> together_;
  std::deque<std::unique_ptr<InFlight>> in_flight_;
  std::vector<std::unique_ptr<InFlight>> spare_;
  std::size_t waiting_ = 0;  // checks gathered or in flight
  SteadyTime last_reply_;
  SteadyTime next_error_log_;
  Mutex mutex_;
  CondVar ready_changed_;
  bool ready_ SLUICE_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace sluice::redis
