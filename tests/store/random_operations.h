// Random checks from a seed, of every algorithm and mode, on few counters whose rules change:
// charges, leases, and undos of earlier grants.
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

  // A time from an answer; the next steps may land on it, or just beside it.
  void Remember(Duration edge) {
    if (edge != Verdict::kNever) edges_[random_.Below(edges_.size())] = edge;
  }

  Duration RandomStep();

  // A check, and the number of its repetitions.
  Operation RandomOperation(Time now);

  // The clock goes back, so what has ended may seem not to have.
  void ForgetLeasesOfUnits() { unit_leases_.clear(); }

  // The counters that may hold the lease are those of the check that took it.
  void RememberLease(const BlockingCheck& check);

  // May be undone later, once.
  void RememberGrant(const StoreCheck& check);
  // What it prefetched may be returned.
  void RememberPrefetched(const StoreCheck& check);

 private:
  struct HeldLease {
    Lease lease;
    Time taken;
    std::vector<CounterSpec> counters;
  };

  // A grant that a check got, and may return, once, or twice.
  struct HeldGrant {
    std::string key;
    Grant grant;
  };

  void AskForGrants(BlockingCheck& check);
  Operation RandomLeaseOperation(Time now);
  Operation RandomOperationOnUnits(Time now);
  // Mostly of a recent one.
  Operation UndoOfSomeGrant();
  std::int64_t RandomCost();
  Duration RandomWait();
  Lease NewLease(Duration ttl);
  // Then its id must not be used to take slots: Redis may still have some of its expired slots,
  // which would be too many if it takes fewer.
  static bool MayHaveEnded(const HeldLease& held, Time now);
  // With what its caller reports, which may be nothing.
  Lease Ending(const HeldLease& held);
  // With distinct counters in ascending groups, whose limits support the mode.
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
