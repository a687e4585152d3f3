// What a check does for its concurrency limits: one lease covers them all.
#include <algorithm>

#include "base/random.h"
#include "limiter/check_call.h"
#include "limiter/lease_name.h"
#include "limiter/limiter.h"

namespace sluice {

// The lease holds for the shortest of the limits' times; of those of shadow rules only if there are
// no others.
Result<void> CheckCall::PrepareLease() {
  if (check_.demand.mode != Mode::kConsume) return {};
  std::optional<Lease>& lease = check_.lease;
  LeaseName enforced;
  for (const CounterCheck& counter : check_.counters) {
    const auto* const concurrency = std::get_if<Concurrency>(counter.limit);
    if (concurrency == nullptr) continue;
    if (counter.group > 0 && !enforced.keys.empty()) break;
    if (!lease) lease.emplace(Lease{.id = RandomBytes(), .ttl = concurrency->ttl});
    lease->ttl = std::min(lease->ttl, concurrency->ttl);
    if (counter.group == 0) enforced.keys.push_back(counter.key);
  }
  if (enforced.keys.empty()) return {};
  enforced.lease = *lease;
  if (enforced.ToText()) return {};
  return InvalidArgument(
      "attributes: the counters of all concurrency limits that this request meets do not fit into "
      "a lease id of 2048 bytes");
}

void CheckCall::GiveLeaseBack() {
  if (answer_ && answer().lease) limiter_.GiveLeaseBack(answer().lease->id);
}

// Names the counters under which the lease was really taken: of a shadow rule those, only if it
// would have let the request pass. Counters stand in the order of the limits that asked a store.
void CheckCall::NameLease() {
  LeaseName name{.lease = *check_.lease, .local = falling_back_, .keys = {}};
  const auto& limits = answer().limits;
  auto counter = check_.counters.begin();
  for (const LimitAnswer& limit : limits) {
    if (!limit.state_known) continue;
    const bool taken = std::all_of(limits.begin(), limits.end(), [&](const LimitAnswer& other) {
      return other.rule != limit.rule || other.verdict.admitted;
    });
    if (taken && limit.algorithm == Algorithm::kConcurrency) name.keys.push_back(counter->key);
    ++counter;
  }
  // Those of shadow rules stand last; what is not named is free again when its time is over.
  for (; !name.keys.empty(); name.keys.pop_back()) {
    auto id = name.ToText();
    if (!id) continue;
    answer().lease = {.id = std::move(*id), .ttl = check_.lease->ttl};
    return;
  }
}

}  // namespace sluice
