// Settles checks whose owners were answered before Redis replied: the charges that a late reply
// reports are kept or undone. For this, the store sends operations of its own, each for one counter
// or for a lease of units.
//
//   the reply of a late check   what follows                          under a lease of units
//   admitted, and kept          its slots are released, since          the lease is settled with 0
//                               nobody has the lease
//   admitted, to be undone      every charge is undone, and its        the lease is settled with 0
//                               slots are released
//   none, so it may have run    its slots are released                 the lease is settled with 0
//
// Grants in a late reply are returned.
//
//   the outcome of settling     what follows
//   not sent                    the operation is sent again when the store answers
//   sent, and failed            slots are released again, a lease is settled again; a charge stays,
//                               since an undo must not run twice
//
// Waiting operations are sent in order, kAtOnce at a time, so that they do not delay checks after
// an outage.
//
// Loop thread only. Must outlive the checks that it has detached.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>

#include "metrics/metrics_registry.h"
#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/pending_check.h"
#include "store/store.h"

namespace sluice::redis {

class Settler {
 public:
  // Sends a check to the nodes of its keys. If that is not possible, the check fails at once.
  using Send = std::function<void(PendingPtr)>;

  // `listener` may be null. `loop`, `metrics` and `listener` must outlive this.
  Settler(net::Loop& loop, MetricsRegistry& metrics, StoreListener* listener, Send send);

  // Replaces the owner's check, which was sent, by a copy that waits for the reply. Returns the
  // owner's check, which must now be answered with a failure.
  StoreCheck& Detach(PendingCheck& pending);

  // Undoes the charges of `check`. If the check took a lease of units, settles it with 0.
  void Undo(const StoreCheck& check);
  // Undoes the charge of `check` to `counter`, one of its counters, or releases the slots.
  void Undo(const StoreCheck& check, const CounterCheck& counter);

  // See Store::Settle. If an earlier settlement of the lease still waits, the new one is dropped,
  // because the earlier one settles the lease.
  bool Settle(const StoreCheck& settle);
  // The number of settlements that Redis has not answered yet.
  std::size_t queued_settles() const { return settles_; }

  // Sends operations that could not be sent before. Called when a node may have come back.
  void SendDeferred();

  // What is not settled when Stop is called stays as it is.
  void Stop();

 private:
  class LateCheck;
  class Settlement;

  // If this many operations are deferred, further slots stay taken until their leases expire, and
  // further charges are not undone.
  static constexpr std::size_t kMaxDeferred = 10'000;
  static constexpr std::size_t kMaxSettles = 100'000;
  // The maximum number of counters in all queued settlements. A counter takes about 600 bytes.
  static constexpr std::size_t kMaxSettledCounters = 300'000;
  static constexpr std::size_t kAtOnce = 1'000;
  static constexpr std::chrono::milliseconds kRetry{100};

  void OnLateReply(const LateCheck& late, bool undo);
  void ReleaseSlots(const StoreCheck& check);
  void ReturnGrants(const StoreCheck& check);
  void OnSettled(Settlement& settlement);
  bool MayRepeat(const Settlement& settlement) const;
  void OnLeaseSettled(const Settlement& settlement);
  void SendNow(std::shared_ptr<StoreCheck> settlement);
  void SendLater(std::shared_ptr<StoreCheck> settlement);
  void OnAnswered();
  void ShowQueued();

  net::Loop& loop_;
  StoreListener* const listener_;
  const Send send_;
  Counter& late_answers_;
  Counter& unknown_outcomes_;
  Counter& lost_undos_;
  Gauge& queued_settles_;
  Counter& lost_settles_;
  net::Timer retry_timer_;
  bool stopped_ = false;
  std::size_t settles_ = 0;  // settlements of leases, on their way or deferred
  std::set<LeaseId> asked_;  // the leases that Store::Settle was called for
  std::size_t settled_counters_ = 0;
  std::size_t on_their_way_ = 0;
  std::deque<std::shared_ptr<StoreCheck>> deferred_;
};

}  // namespace sluice::redis
