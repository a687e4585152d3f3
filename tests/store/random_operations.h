// Random checks from a seed, of every algorithm and mode, on few counters: charges, leases, and
// undos of earlier grants.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/undo_check.h"
#include "tests/store/blocking_check.h"

namespace sluice::test {

struct Operation {
  std::unique_ptr<BlockingCheck> check;
  std::int64_t n = 1;
};

class RandomOperations {
 public:
  explicit RandomOperations(std::uint32_t seed);

  template <typename T>
  T Pick(std::initializer_list<T> of) {
    return of.begin()[Below(of.size())];
  }
  std::size_t Below(std::size_t bound) { return random_() % bound; }
  bool OneIn(std::size_t n) { return Below(n) == 0; }

  // A time from an answer; the next steps may land on it, or just beside it.
  void Remember(Duration edge) {
    if (edge != Verdict::kNever) edges_[Below(edges_.size())] = edge;
  }

  Duration RandomStep();

  // A check, and the number of its repetitions.
  Operation RandomOperation(Time now);

  // The counters that may hold the lease are those of the check that took it.
  void RememberLease(const BlockingCheck& check);

  // May be undone later, once.
  void RememberGrant(const StoreCheck& check);

 private:
  struct HeldLease {
    Lease lease;
    std::vector<CounterSpec> counters;
  };

  Operation RandomLeaseOperation();
  // Mostly of a recent one.
  Operation UndoOfSomeGrant();
  std::int64_t RandomCost();
  Duration RandomWait();
  Lease NewLease(Duration ttl);
  // Distinct counters in ascending groups, with limits that support the mode.
  std::vector<CounterSpec> RandomCounters(Mode mode);
  void AddLimit(const std::string& key, const Limit& limit);
  Limit RandomFixedWindow();
  Limit RandomSlidingLog();
  Limit RandomTokenBucket();
  Limit RandomSlidingWindow();
  Limit RandomWarmingBucket();
  Limit RandomLeakyBucket();
  Limit RandomConcurrency();

  std::mt19937 random_;
  std::vector<CounterSpec> limits_;
  std::vector<HeldLease> leases_;
  std::vector<std::unique_ptr<UndoCheck>> grants_;
  std::array<Duration, 4> edges_{};
};

}  // namespace sluice::test
