// How this server decides while the store fails. An outage, from its beginning to its end:
//
//   1. While the store answers, this server remembers the last state of each counter.
//   2. A part of the store fails (see Store::PartOf): checks fail there, or a connection to it is
//      lost.
//   3. Checks of rules with `on_store_failure: local` are decided here. Each counter starts from
//      its last state, at this server's share. The admitted units and leases are pending.
//   4. The part answers again. Its counters lack the units that servers admitted without it, until
//      every server has charged them. Other servers may notice later that the part answers. So in
//      a grace period, checks of these rules continue to be decided here. If no connection to
//      the part was lost, the grace period ends as soon as this server has charged its own units.
//      If the part refuses to work or is lost again, the failure continues, and the next grace
//      period is a new one.
//   5. The store is charged with what is pending, each unit at most once.
//
// This class also handles what the store reports besides its answers. Times are on the store's
// clock.
//
// Thread-safe, except for Reconcile.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "core/algorithm/counter.h"
#include "core/algorithm/limit.h"
#include "core/share.h"
#include "limiter/clearings.h"
#include "limiter/limiter_metrics.h"
#include "limiter/pending_charges.h"
#include "limiter/pending_leases.h"
#include "limiter/recent_states.h"
#include "limiter/store_clock.h"
#include "store/store.h"

namespace sluice {

class Fallback final : public StoreListener {
 public:
  // The interval at which Reconcile must be called while HasPending().
  static constexpr std::chrono::milliseconds kReconcileEvery{10};

  // `own_clock` must outlive this.
  explicit Fallback(const Clock& own_clock, const Share& initial_share = Share::Whole());
  ~Fallback() override;

  // Sets the store that may fail, and the metrics. Called once, before any check. Both must live
  // until the store has returned all checks.
  void Attach(Store& store, const LimiterMetrics& metrics);

  StoreClock clock;
  Clearings clearings;
  RecentStates states;
  PendingCharges charges;
  PendingLeases leases;

  // This server's share of every limit.
  Share share() const SLUICE_EXCLUDES(mutex_);
  // Returns false and changes nothing if a part of the store is in a grace period. Local counters
  // would start again at the new share, without the units that the store was charged with in the
  // grace period.
  bool SetShare(const Share& share) SLUICE_EXCLUDES(mutex_);

  // 1. `check` will be submitted to the store, and its answer will be learned.
  void NoteAsked(const StoreCheck& check) const;
  // 1, 2 and 4. The store has answered `check`, or has failed: learns the states of the decided
  // counters, and which parts of the store fail.
  void NoteDecided(const StoreCheck& check, SteadyTime now);
  void OnLateAnswer(const StoreCheck& check) override;
  void OnUndoStarted(const StoreCheck& undo) override;
  void OnUndoEnded(const StoreCheck& undo) override;
  // Counts the units of a settlement that was queued.
  void OnSettled(const StoreCheck& settlement) override;

  // 2. and 4.
  void OnPartLost(std::size_t part) override SLUICE_EXCLUDES(mutex_);
  void OnPartFound(std::size_t part) override SLUICE_EXCLUDES(mutex_);

  // 3. A counter with which this server decides by itself.
  struct LocalCounter {
    Limit limit;                      // this server's share
    std::optional<CounterSeed> seed;  // none: the counter continues, or starts as new
  };
  LocalCounter Localize(std::string_view key, const Limit& limit) const;
  // For a check about a lease: replaces its limits with this server's shares of them. Returns these
  // shares, to which `check` then refers.
  std::vector<Limit> UseShares(StoreCheck& check) const;
  // Adds `units` to the counter's pending charge: units that were admitted without the store, and
  // that the store has not counted. Empty: there is no room.
  std::optional<PendingCharges::Added> RecordCharge(std::string_view key, const Limit& limit,
                                                    std::int64_t units);
  // Counts units that were admitted without the store, but that the store may have counted.
  void RecordUnknown(std::int64_t units) const;

  // Settles a lease of units that this server granted, by correcting the lease's pending changes.
  // Returns kQueued if the store will settle the lease, otherwise kSettled. Empty: this server has
  // no such lease. `settle` has the original id of the lease, not NameInStore.
  std::optional<LeaseOutcome> SettleLease(const StoreCheck& settle);

  // 4. Whether checks of the counter still avoid the store. If no part has failed recently, only
  // reads an atomic.
  bool InGracePeriod(std::string_view key) SLUICE_EXCLUDES(mutex_);

  // 5. Sends at most kMostAtOnce pending changes of leases, and at most as many charges. After a
  // failure, sends at most one change and one charge, until the store accepts one of them. Each
  // call sends both kinds, so that neither kind blocks the other if a part of the store stays lost.
  // One io thread only.
  void Reconcile();
  // Whether there are changes that the store has not accepted.
  bool HasPending() { return reconciling_ || charges.size() > 0 || leases.changes() > 0; }
  // `run` is called when HasPending becomes true, by any thread, under a lock, so it must not call
  // this object. Set before the first check.
  void SetOnPending(const std::function<void()>& run) { charges.on_first = leases.on_first = run; }

  // Waits until nothing is pending, at most until `deadline`. Not on the thread of Reconcile.
  void WaitUntilCharged(SteadyTime deadline) SLUICE_EXCLUDES(wait_mutex_);

  // Logs what is still pending when the server stops.
  void LogLost();

  // The counter was reset.
  void Forget(std::string_view key);

 private:
  static constexpr std::size_t kMostAtOnce = 64;
  // If the store rejected a counter, its pending changes are sent again after this many rounds,
  // which take a second. Meanwhile, they do not delay other changes.
  static constexpr int kRoundsAfterRejection = 100;
  // No caller waits for a charge, so the timeout is longer than for a check.
  static constexpr std::chrono::seconds kChargeTimeout{1};
  // The longest reconnect pause plus time for a few charges. So the store decides again within a
  // second after its return.
  static constexpr Duration kLongestGrace = std::chrono::milliseconds(450);

  enum class PartState { kWell, kFailing, kInGrace };
  struct Part {
    PartState state = PartState::kWell;
    bool lost = false;  // whether a connection to the part was lost; if not, only checks failed
    Time since;         // when the failure began
    Time until;         // kInGrace: until when checks avoid the part
  };
  class Settlement;

  // How a part fails. kSlow: perhaps only for some checks.
  enum class Sign : std::uint8_t { kSlow, kRefuses, kLost };

  bool AllPartsAreWell() const { return not_well_.load(std::memory_order_relaxed) == 0; }
  void Enter(Part& part, PartState state) SLUICE_REQUIRES(mutex_);
  void EndGracePeriodInTime(Part& part, Time now) SLUICE_REQUIRES(mutex_);
  void FailPart(std::size_t part, Sign sign) SLUICE_EXCLUDES(mutex_);

  void Learn(const StoreCheck& check);
  void Learn(const CounterCheck& counter);
  void OnReconciled(Settlement& settlement);

  Store* store_ = nullptr;
  const LimiterMetrics* metrics_ = nullptr;
  mutable Mutex mutex_;
  Share share_ SLUICE_GUARDED_BY(mutex_);
  std::array<Part, Store::kParts> parts_ SLUICE_GUARDED_BY(mutex_){};
  std::atomic<int> not_well_{0};  // parts that are not kWell; written under mutex_

  // Used by Reconcile's thread only. All changes in flight are decided before the next are sent, so
  // changes of one lease stay in order.
  std::vector<std::unique_ptr<Settlement>> in_flight_;
  std::size_t undecided_ = 0;  // of in_flight_
  bool store_accepts_ = false;
  std::atomic<bool> reconciling_{false};  // some in_flight_ are undecided

  Mutex wait_mutex_;
  CondVar reconciled_;  // the store has answered a change
};

}  // namespace sluice
