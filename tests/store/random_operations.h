// Random checks from a seed, of every algorithm and mode, on few counters whose rules change:
// charges, leases, and undos of earlier checks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/owned_check.h"
#include "tests/store/blocking_check.h"
#include "tests/store/random_rules.h"

namespace sluice::test {

struct Operation {
  std::unique_ptr<BlockingCheck> check;
  std::int64_t n = 1;
};

class RandomOperations {
 public:
  explicit RandomOperations(std::uint32_t seed) : random_(seed) {}

  // For further choices of the test.
  Random& random() { return random_; }

  // Remembers a duration from an answer. Later steps of the clock may have this length, or 1 µs
  // less.
  void Remember(Duration edge) {
    if (edge != Verdict::kNever) edges_[random_.Below(edges_.size())] = edge;
  }

  Duration RandomStep();

  // A check, and how often it is repeated.
  Operation RandomOperation(Time now);

  // To be called when the clock goes back: leases that have ended may seem to be open again.
  void ForgetLeasesOfUnits() { unit_leases_.clear(); }

  // Remembers the lease of the check, and the counters from which it may hold units or slots.
  void RememberLease(const BlockingCheck& check);

  // Lets one later operation undo what the check has charged.
  void RememberGrant(const StoreCheck& check);
  // The units that the check prefetched may be returned later.
  void RememberPrefetched(const StoreCheck& check);

 private:
  struct HeldLease {
    Lease lease;
    Time taken;
    std::vector<CounterSpec> counters;
  };

  // A grant of prefetched units. It may be returned more than once.
  struct HeldGrant {
    std::string key;
    Grant grant;
  };

  void AskForGrants(BlockingCheck& check);
  Operation RandomLeaseOperation(Time now);
  Operation RandomOperationOnUnits(Time now);
  // Undoes a remembered check, often a recent one.
  Operation UndoOfSomeGrant();
  std::int64_t RandomCost();
  Duration RandomWait();
  Lease NewLease(Duration ttl);
  // Whether the lease may have ended. If so, its id must not be used to take slots: Redis may still
  // store expired slots of the lease. If a check with this id took fewer slots than are stored,
  // Redis would count too many.
  static bool MayHaveEnded(const HeldLease& held, Time now);
  // The lease, mostly with a report from its caller.
  Lease Ending(const HeldLease& held);
  // A check of distinct counters, in ascending groups. Their limits support the mode.
  std::unique_ptr<BlockingCheck> RandomCheck(Mode mode);

  Random random_;
  RandomRules rules_{random_};
  std::vector<HeldLease> leases_;
  std::vector<HeldLease> unit_leases_;
  std::vector<std::unique_ptr<OwnedCheck>> grants_;
  std::vector<HeldGrant> prefetched_;
  std::array<Duration, 4> edges_{};
};

}  // namespace sluice::test
