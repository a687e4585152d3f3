// A resource guarded by a concurrency limit. Callers take a lease, use the resource and release the
// lease. Some callers crash and let the lease expire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/accuracy/history.h"
#include "tests/accuracy/judgement.h"
#include "tests/system/fleet.h"

namespace sluice::accuracy {

struct Holding {
  std::int64_t limit = 50;
  Duration ttl = std::chrono::seconds(2);
  int callers = 1'000;
  Duration length{};
};

// The time in which a slot is held, including both ends.
struct Held {
  Time from;
  Time to;
};

struct Usage {
  std::vector<Held> certainly;  // until the release was sent, or the lease expired
  std::vector<Held> possibly;   // until the release was answered, or the lease expired
  std::vector<Time> denials;
  std::int64_t unknown = 0;     // checks that failed, or that a fallback decided
  std::int64_t unreleased = 0;  // leases whose release failed
  // The maximum number of callers in the resource at the same time, as the resource counted.
  std::int64_t most_at_once = 0;
};

inline constexpr char kHoldingRule[] = "concurrency-release";
std::string RuleOf(const Holding& holding);

// Returns when all callers have ended. Not thread-safe. REQUIRES: the fleet's Redis runs on this
// machine, because the times of releases are from this machine's clock, and the times of decisions
// are from Redis' clock.
Usage Hold(test::Fleet& fleet, const Holding& holding);

// `promise.over` is the number of admissions while all slots were certainly held, plus the number
// of callers by which the resource's count exceeded the limit. `missing` is the number of denials
// while a slot was certainly free. A pure function.
Judgement Judge(const Usage& usage, const Holding& holding);

}  // namespace sluice::accuracy
