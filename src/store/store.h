// The storage of counters. A narrow, asynchronous interface, implemented by store/memory and
// store/redis; tests/store/conformance_test.cc requires the same answers from both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "core/algorithm/counter.h"
#include "core/algorithm/limit.h"
#include "core/lease.h"

namespace sluice {

// Why a counter has no answer from the store. The failure policy of its rule then decides, except
// for kCallerTimeout.
enum class StoreFailure : std::uint8_t {
  kTimeout,          // sent, but no answer in time; the counter may have been charged
  kUnsent,           // the deadline passed before the check could be sent; not charged
  kUnreachable,      // no connection, or the store is known to be failing; not charged
  kOverloaded,       // too many checks wait, or no room for a new counter; not charged
  kRejected,         // the store answered with an error; not charged
  kCounterRejected,  // the store cannot read a counter of this check; not charged
  kCallerTimeout,    // the caller's deadline passed; if the check was sent, it may be charged
};
inline constexpr std::size_t kStoreFailures = 7;

std::string_view ToString(StoreFailure failure);

// One limit of a check, and its verdict.
struct CounterCheck {
  HashedKey key;                 // its bytes live until OnDecided
  const Limit* limit = nullptr;  // lives until OnDecided
  // 0: an enforced limit; all limits of group 0 must admit. k > 0: a limit of the k-th shadow rule.
  // A shadow rule does not affect the decision, and is charged if all of its own limits admit and
  // the decision is to allow.
  std::uint16_t group = 0;
  // The units, from 0 to kMaxCost, that the check takes from this counter, gives back, or only
  // tests. 0: takes nothing, but the counter denies while it is beyond its limit. kSettle: the
  // units used, or kAsTaken; slots are released in any case. kRenew and kInspect ignore this field.
  std::int64_t units = 1;
  // For store/memory. If the counter is new or has another seed, it starts from the state of this
  // seed. Null: no seed. Lives until OnDecided.
  const CounterSeed* seed = nullptr;

  Verdict verdict;                        // out; undefined if the counter failed
  Time decided_at;                        // out, like `verdict`; on the store's clock
  std::optional<StoreFailure> failure{};  // out
  // out: whether a check with kConsume took units from this counter; Store::Undo gives them back.
  // `before` is the counter's state before a check with kConsume or kPeek, and after a check with
  // another mode.
  bool charged = false;
  CounterSnapshot before{};
  // out, for kSettle, kRenew and kInspect of a lease of units: the slots or units of this counter
  // that the lease held; see Held::units.
  std::int64_t held = 0;

  // If the check concerns grants: the grant of this counter that the server returns (applied before
  // the check), and the grant that the server requests (taken after the check, if the check is
  // admitted).
  GrantReturn returned{};
  GrantWish wanted{};
  Grant grant{};           // out: the grant that the server got
  GrantsOut grants_out{};  // out: all grants of this counter that servers hold
};

// The parameters of a check, without its counters.
struct CheckParameters {
  Demand demand;
  // Required if the check takes slots, if `leases_units` is set, and with kRenew, kSettle and
  // kInspect. Without `leases_units`, the lease has only slots, and these modes concern only slots.
  std::optional<Lease> lease;
  // The lease covers the units of all counters. The store keeps a record of what was taken from
  // each counter. kConsume writes the record. kRenew, kSettle and kInspect use the record, and must
  // name the counters of the check that wrote it, in the same order. kCharge writes a record of the
  // slots that it takes, and of units (at most MostAtOnce) that have already been charged; it does
  // not charge these units again. The counters of one shadow rule have the same hash tag.
  bool leases_units = false;
  // The check returns grants, requests grants, or reads which grants servers hold. Only for
  // kConsume and kPeek, without a lease. The check is not coalesced. If the check fails with a
  // failure other than kTimeout and kCallerTimeout, no grant was returned.
  bool concerns_grants = false;
  // Decided after every earlier in-order check from this thread that shares a counter with it.
  bool in_order = false;
  // When the store stops waiting, and the check fails with kTimeout or kUnsent.
  SteadyTime deadline = SteadyTime::max();
  // The caller's deadline; a check that reaches it fails with kCallerTimeout. If this process was
  // late, the store may wait beyond `deadline`, once, but never beyond `last_deadline`.
  SteadyTime last_deadline = SteadyTime::max();
};

// One check in a store. The owner fills in the parameters and the counters, calls Submit, and must
// not touch the check until OnDecided.
class StoreCheck : public CheckParameters {
 public:
  StoreCheck() = default;
  virtual ~StoreCheck() = default;
  StoreCheck(const StoreCheck&) = delete;
  StoreCheck& operator=(const StoreCheck&) = delete;

  std::vector<CounterCheck> counters;  // at least one, keys distinct, groups ascending

  // out: group 0 admits, or for kRenew, the lease was renewed. False if a counter failed.
  bool admitted = false;
  // out, if `leases_units`. kRenew and kInspect: kSettled means that the lease can still be
  // settled, until kSettlesFor after `lease_ends`.
  Settled settled = Settled::kNotFound;
  Time lease_ends;  // out, if `leases_units` and the lease can still be settled: on the store's
                    // clock
  Time decided_at;  // out: on the store's clock; the latest time of its counters
  // out, for Store::Undo: undoes the charges that the late reply reports or will report. Empty if
  // the check was not sent, or was answered in time. The undo happens only while the store runs.
  // A lease of units need not be undone: nobody has the lease, so the store settles it with 0, even
  // if no reply says whether it was taken.
  std::function<void()> undo_late;

  // What the check asks of `counter`, which must be one of its counters.
  CounterDemand DemandOf(const CounterCheck& counter) const {
    const bool only_enters =
        leases_units && demand.mode == Mode::kCharge && !TakesLeases(*counter.limit);
    return {demand, only_enters || counter.units == kAsTaken ? 0 : counter.units};
  }

  // Whether `units` is 0 for all counters, so that the check takes nothing in any mode.
  bool HasNoUnits() const;

  // The failure of the first counter that has one.
  std::optional<StoreFailure> failure() const;

  // For stores: sets `failure` on all counters.
  void Fail(StoreFailure failure);

  // Returns the check to its owner: called once per Submit, on the same thread, possibly before
  // Submit returns. Must not block.
  virtual void OnDecided() = 0;
};

// A request to reset counters. Owned and returned like a StoreCheck.
class StoreReset {
 public:
  StoreReset() = default;
  virtual ~StoreReset() = default;
  StoreReset(const StoreReset&) = delete;
  StoreReset& operator=(const StoreReset&) = delete;

  std::vector<std::string_view> keys;  // at least one; live until OnReset
  SteadyTime deadline = SteadyTime::max();

  // out. kTimeout: the counters may have been reset; another failure: they were not.
  std::optional<StoreFailure> failure;

  // For stores: returns the reset to its owner.
  void Finish(std::optional<StoreFailure> its_failure) {
    failure = its_failure;
    OnReset();
  }

  // Called like StoreCheck::OnDecided.
  virtual void OnReset() = 0;
};

// For stores: fills in the verdict of `counter` for the check at `index` of coalesced checks; see
// VerdictAt.
void Answer(CounterCheck& counter, CounterReport report, const CoalescedChecks& checks,
            std::int64_t index);

// What a store reports besides its answers. Called on io threads. Must not block.
class StoreListener {
 public:
  virtual ~StoreListener() = default;

  // A connection to a part of the store (see Store::PartOf) is lost, or none can be made. May be
  // called repeatedly while that lasts.
  virtual void OnPartLost(std::size_t part) = 0;

  // The part answers again, after it was lost or too slow. May also be called if the part was
  // neither.
  virtual void OnPartFound(std::size_t part) = 0;

  // A reply arrived after `check` had failed. It shows the counters' true state. `check` has
  // verdicts, like any answered check. `check` is valid until OnLateAnswer returns. Called on the
  // thread that submitted the check.
  virtual void OnLateAnswer(const StoreCheck& check) = 0;

  // Units may become free: Store::Undo or Store::Settle was called, another part of the store
  // denied the check, a late reply reports charges, slots or grants that nobody uses, or a check
  // that takes a lease got no reply. OnUndoEnded follows, once, for the same counters, unless the
  // store is stopped. `undo` is valid until OnUndoStarted returns. OnUndoStarted and OnUndoEnded
  // are called on the thread of the check.
  virtual void OnUndoStarted(const StoreCheck& undo) = 0;

  // The undo has ended. The counters of `undo` that did not fail have verdicts from after the undo;
  // `undo` is valid until OnUndoEnded returns.
  virtual void OnUndoEnded(const StoreCheck& undo) = 0;

  // The store has answered `settlement`, which Store::Settle requested. `settlement` is valid until
  // OnSettled returns. Called on the thread that called Settle.
  virtual void OnSettled(const StoreCheck& settlement) = 0;
};

// Submit, Reset, Undo and Settle are called on io threads (net/io_threads.h) and answered on the
// same thread. A store that also allows other threads documents it.
class Store {
 public:
  // Part numbers are less than this. If a store has more parts, several parts share a number.
  static constexpr std::size_t kParts = 64;

  virtual ~Store() = default;

  // Decides `check`: all limits of group 0 admit and are charged, or none is. Atomic, unless the
  // counters have several routes in a Redis Cluster: see redis/thread_store.h.
  virtual void Submit(StoreCheck& check) = 0;

  // Resets counters for all users of the store. Counters that do not exist are already reset.
  virtual void Reset(StoreReset& reset) = 0;

  // Undoes the charges of `check`, which was not admitted, as if it had not happened. If the
  // charged window has ended, later windows do not change. Charges that a late reply reports are
  // undone, too. Copies what it needs and reports no result. If the store fails, the charges
  // remain. REQUIRES: `check` was decided by this store, and has not been changed since.
  virtual void Undo(const StoreCheck& check) = 0;

  // Settles a lease of units whose caller no longer waits. The settlement is sent again until the
  // store has answered, even after an outage. Copies what it needs. Returns false if there is no
  // room; then nothing is done. REQUIRES: `settle` is a kSettle with `leases_units`.
  virtual bool Settle(const StoreCheck& settle) = 0;

  // The part of the store, below kParts, that decides the counter. Each part fails and recovers
  // independently of the others, and keeps its number if another Redis node takes it over. On io
  // threads.
  virtual std::size_t PartOf(std::string_view key) const = 0;
};

}  // namespace sluice
