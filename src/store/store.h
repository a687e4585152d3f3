// Where counters live. One narrow, asynchronous interface; store/memory and store/redis implement
// it, and tests/conformance holds them to the same answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/counter.h"
#include "core/lease.h"
#include "core/limit.h"

namespace sluice {

// Why a counter has no answer from the store. The failure policy of its rule decides then, unless
// it is kCallerTimeout.
enum class StoreFailure : std::uint8_t {
  kTimeout,        // sent, but no answer in time; the counter may have been charged
  kUnsent,         // the store's time ended before the check could be sent; not charged
  kUnreachable,    // no connection, or the store is known to be failing; not charged
  kOverloaded,     // too many checks wait, or no room for a new counter; not charged
  kRejected,       // the store answered with an error; not charged
  kCallerTimeout,  // the caller's own time ended; the counter may have been charged if it was sent
};
inline constexpr std::size_t kStoreFailures = 6;

std::string_view ToString(StoreFailure failure);

// One limit of a check, and what it said.
struct CounterCheck {
  std::string_view key;          // lives until OnDecided
  const Limit* limit = nullptr;  // lives until OnDecided
  // 0: enforced, all of these must admit. k > 0: the k-th shadow rule, which has no part in the
  // decision, and is charged if all of its own limits admit and the decision is to allow.
  std::uint16_t group = 0;
  // store/memory: what the counter begins with, unless it goes on from the same; null: as it is, or
  // as new. Lives until OnDecided.
  const CounterSeed* seed = nullptr;

  Verdict verdict;                        // out; meaningful unless the counter failed
  std::optional<StoreFailure> failure{};  // out
  // out: the check took its cost here, which Store::Undo can take back: what the counter held just
  // before tells it what to take back.
  bool charged = false;
  CounterSnapshot before{};
};

class LateCheck;

// One check on its way through a store. The owner fills the first part, Submits it, and must not
// touch it until OnDecided.
class StoreCheck {
 public:
  StoreCheck() = default;
  virtual ~StoreCheck() = default;
  StoreCheck(const StoreCheck&) = delete;
  StoreCheck& operator=(const StoreCheck&) = delete;

  std::vector<CounterCheck> counters;  // at least one, keys distinct, groups ascending
  Demand demand;
  // The lease for concurrency counters. Required unless the mode is kPeek. kRenew and kRelease
  // concern such counters only.
  std::optional<Lease> lease;
  // Decided after every earlier in-order check from this thread that shares a counter with it.
  bool in_order = false;
  // When the store gives up waiting: kTimeout or kUnsent.
  SteadyTime deadline = SteadyTime::max();
  // When the caller gives up: kCallerTimeout. A store that finds itself late may wait beyond
  // `deadline`, once; never beyond this.
  SteadyTime last_deadline = SteadyTime::max();

  bool admitted = false;  // out: group 0 admits; kRenew: the lease holds; false if a counter failed
  Time decided_at;        // out: on the store's clock
  // out, valid during OnDecided: what takes the check's place until its reply comes, if it was sent
  // and has failed. Else null.
  LateCheck* late = nullptr;

  // The failure of the first counter that has one.
  std::optional<StoreFailure> failure() const;

  // For stores: makes `failure` that of all counters.
  void Fail(StoreFailure failure);

  // For the store, while it holds the check.
  StoreCheck* next = nullptr;  // links checks into queues
  // How it is sent to a node of a cluster.
  enum class Sending : std::uint8_t {
    kWithOthers,  // in one call with checks of other slots
    kBySlot,      // alone, its keys declared: so the node says where they are
    kAsking,      // alone, to the node that takes its slot over
  } sending = Sending::kWithOthers;
  bool waits_anew = false;  // `deadline` has been put off
  bool is_late = false;     // this is a LateCheck

  // Hands the check back to its owner: called once per Submit, on the same thread, possibly before
  // Submit returns. Must not block.
  virtual void OnDecided() = 0;
};

// Counters to be made as new, on their way through a store. Owned and handed back as a StoreCheck.
class StoreReset {
 public:
  StoreReset() = default;
  virtual ~StoreReset() = default;
  StoreReset(const StoreReset&) = delete;
  StoreReset& operator=(const StoreReset&) = delete;

  std::vector<std::string_view> keys;  // at least one; live until OnReset
  SteadyTime deadline = SteadyTime::max();

  // out; kTimeout: the counters may have been reset, any other: they were not
  std::optional<StoreFailure> failure;

  // As StoreCheck::OnDecided.
  virtual void OnReset() = 0;
};

// For stores: fills in what `counter` says to the check at `index` of a run; see JudgeNth.
void Answer(CounterCheck& counter, CounterReport report, const Run& run, std::int64_t index);

// Is told of replies that came after their checks had failed: what counters really hold.
class LateAnswers {
 public:
  virtual ~LateAnswers() = default;

  // `check` has its verdicts as any answered check would; valid until OnLateAnswer returns. On the
  // thread that the check was submitted on. Must not block.
  virtual void OnLateAnswer(const StoreCheck& check) = 0;
};

// Submit, Reset and Undo are called on io threads (net/io_threads.h) and answered on the same
// thread. A store may allow other threads, too, and says so.
class Store {
 public:
  virtual ~Store() = default;

  // Decides `check` atomically: all limits of group 0 admit and are charged, or none is.
  virtual void Submit(StoreCheck& check) = 0;

  // Makes counters as new for all who share the store: those that do not exist are that already.
  virtual void Reset(StoreReset& reset) = 0;

  // Takes back what those counters of `check` were charged that did not fail, as if it had not
  // come: never from a later window than the one charged. Copies what it needs and tells nobody.
  // What cannot be taken back (the store fails) stays charged. REQUIRES: `check` was decided by
  // this store, and its counters are as it left them.
  virtual void Undo(const StoreCheck& check) = 0;
};

}  // namespace sluice
