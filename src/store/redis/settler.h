// Settles checks whose owners have been answered: what their replies, too late, have charged is
// kept or undone. One operation, of one counter, that the store sends itself.
//
//   the reply of a late check   what follows
//   admitted, and kept          its slots are released, since nobody has the lease
//   admitted, to be undone      every charge is undone, and its slots are released
//   none, so it may have run    its slots are released
//
//   the outcome of settling     what follows
//   not run                     it is sent again when the store is back
//   may have run                slots are released again; a charge stays, since an undo must not
//                               run twice
//
// Loop thread only. Must outlive the checks that it has detached.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "metrics/metrics_registry.h"
#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/pending_check.h"
#include "store/store.h"

namespace sluice::redis {

class Settler {
 public:
  // Sends a check to the node of its key. If that is not possible, the check fails at once.
  using Send = std::function<void(PendingPtr)>;

  // `loop`, `metrics` and `listener`, which may be null, must outlive this.
  Settler(net::Loop& loop, MetricsRegistry& metrics, StoreListener* listener, Send send);

  // Replaces the owner's check, which was sent, by a copy that waits for the reply. Returns the
  // owner's check, which must be failed now.
  StoreCheck& Detach(PendingCheck& pending);

  // Undoes what `check`, or one counter of it, was charged.
  void Undo(const StoreCheck& check);
  void Undo(const StoreCheck& check, const CounterCheck& counter);

  // See Store::Settle.
  bool Settle(const StoreCheck& settle);

  // Sends what could not be sent before. Called when a node may have come back.
  void SendDeferred();

  // Whatever is not settled by then stays as it is.
  void Stop();

 private:
  class LateCheck;
  class Settlement;

  // Beyond this, leases expire and charges are not undone.
  static constexpr std::size_t kMaxDeferred = 10'000;
  static constexpr std::chrono::milliseconds kRetry{100};

  void OnLateReply(const LateCheck& late, bool undo);
  void ReleaseSlots(const StoreCheck& check);
  void OnSettled(Settlement& settlement);
  bool SendLater(std::shared_ptr<Settlement> settlement);

  net::Loop& loop_;
  StoreListener* const listener_;
  const Send send_;
  Counter& late_answers_;
  Counter& unknown_outcomes_;
  Counter& lost_undos_;
  net::Timer retry_timer_;
  bool stopped_ = false;
  std::vector<std::shared_ptr<Settlement>> deferred_;
};

}  // namespace sluice::redis
