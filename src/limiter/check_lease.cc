// The lease of a check: one lease covers all of its concurrency limits.
#include <algorithm>

#include "base/random.h"
#include "limiter/check_call.h"
#include "limiter/lease_name.h"
#include "limiter/limiter.h"

namespace sluice {

// The lease lasts for the shortest ttl of the limits; shadow rules count only if there are no
// others.
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
  if (!request.may_lease && !name.keys.empty()) {
    return Error{ErrorCode::kPermissionDenied,
                 "mode: the caller may not take leases (setting callers), and a concurrency limit "
                 "matches this request"};
  }
  lease_bits_ = name.bits = RandomBytes();
  check_.lease = name.lease();
  if (name.keys.empty() || name.ToText()) return {};
  return InvalidArgument(
      "attributes: the counters of all concurrency limits that match this request do not fit into "
      "a lease id of 2048 bytes");
}

std::function<void()> CheckCall::LeaseReturn() const {
  if (!answer_ || !answer_.value().lease) return nullptr;
  return [&limiter = limiter_, id = answer_.value().lease->id] { limiter.GiveLeaseBack(id); };
}

// Names the counters in which the lease took slots. Counters of a shadow rule are included only if
// the rule would have admitted the request. If some slots are in the store and some on this server,
// only those in the store are named; the others are freed when they expire.
void CheckCall::NameLease() {
  LeaseName name{.bits = lease_bits_, .ttl = check_.lease->ttl, .keys = {}};
  CollectSlots(Source::kStore, name.keys);
  if (name.keys.empty()) {
    name.local = true;
    CollectSlots(Source::kFallback, name.keys);
  }
  // Shadow rules come last; slots that are not named are freed when they expire.
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

// The keys of the concurrency counters taken in `taken_by`.
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
