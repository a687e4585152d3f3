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
  LeaseName name{.ttl = Duration::max(), .keys = {}};
  for (const CounterCheck& counter : check_.counters) {
    const auto* const concurrency = std::get_if<Concurrency>(counter.limit);
    if (concurrency == nullptr) continue;
    if (counter.group > 0 && !name.keys.empty()) break;
    name.ttl = std::min(name.ttl, concurrency->ttl);
    if (counter.group == 0) name.keys.push_back(counter.key);
  }
  if (name.ttl == Duration::max()) return {};
  lease_bits_ = name.bits = RandomBytes();
  check_.lease = name.lease();
  if (name.keys.empty() || name.ToText()) return {};
  return InvalidArgument(
      "attributes: the counters of all concurrency limits that this request meets do not fit into "
      "a lease id of 2048 bytes");
}

std::function<void()> CheckCall::LeaseReturn() const {
  if (!answer_ || !answer_.value().lease) return nullptr;
  return [&limiter = limiter_, id = answer_.value().lease->id] { limiter.GiveLeaseBack(id); };
}

// Names the counters under which the lease was really taken: of a shadow rule those, only if it
// would have let the request pass. Where some slots are the store's and some this server's, those
// of the store are named, and the others are free again when their time is over.
void CheckCall::NameLease() {
  LeaseName name{.bits = lease_bits_, .ttl = check_.lease->ttl, .keys = {}};
  CollectSlots(Source::kStore, name.keys);
  if (name.keys.empty()) {
    name.local = true;
    CollectSlots(Source::kFallback, name.keys);
  }
  // Those of shadow rules stand last; what is not named is free again when its time is over.
  for (; !name.keys.empty(); name.keys.pop_back()) {
    auto id = name.ToText();
    if (!id) continue;
    if (name.local) {
      limiter_.parts_.fallback.leases.Granted(check_.lease->id, name.keys, check_.demand.cost,
                                              SteadyNow() + check_.lease->ttl);
    }
    answer().lease = {.id = std::move(*id), .ttl = check_.lease->ttl};
    return;
  }
}

// The keys of the concurrency counters that were taken there.
void CheckCall::CollectSlots(Source taken_by, std::vector<std::string_view>& keys) const {
  const auto& limits = answer_.value().limits;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const LimitAnswer& limit = limits[i];
    const bool here = limit.source == taken_by && limit.state_known;
    if (!here || limit.algorithm != Algorithm::kConcurrency) continue;
    const bool taken = std::all_of(limits.begin(), limits.end(), [&](const LimitAnswer& other) {
      return other.rule != limit.rule || other.verdict.admitted;
    });
    if (taken) keys.push_back(check_.counters[i].key);
  }
}

}  // namespace sluice
