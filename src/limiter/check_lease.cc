#include "limiter/check_lease.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"

namespace sluice {
namespace {

bool TakesSlots(const CounterCheck& counter) {
  return counter.units > 0 && TakesLeases(*counter.limit);
}

// The keys of the concurrency counters taken in `taken_by`. Counters of a shadow rule are included
// only if the rule would have admitted the request.
void CollectSlots(const StoreCheck& check, std::span<const LimitAnswer> limits, Source taken_by,
                  std::vector<std::string_view>& keys) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const LimitAnswer& limit = limits[i];
    const bool here = limit.source == taken_by && limit.state_known;
    if (!here || !TakesSlots(check.counters[i])) continue;
    const bool taken = std::all_of(limits.begin(), limits.end(), [&](const LimitAnswer& other) {
      return other.rule != limit.rule || other.verdict.admitted;
    });
    if (taken) keys.push_back(check.counters[i].key);
  }
}

std::vector<PendingLeases::Slots> SlotsOf(const StoreCheck& check,
                                          std::span<const std::string_view> keys) {
  std::vector<PendingLeases::Slots> slots;
  for (const CounterCheck& counter : check.counters) {
    if (std::find(keys.begin(), keys.end(), counter.key) == keys.end()) continue;
    slots.push_back({.key = std::string(counter.key), .count = counter.units});
  }
  return slots;
}

}  // namespace

// The lease lasts for the shortest ttl of the limits; shadow rules count only if there are no
// others.
Result<void> CheckLease::Prepare(StoreCheck& check, bool may_lease) {
  if (check.demand.mode != Mode::kConsume) return {};
  name_.keys.clear();
  name_.ttl = Duration::max();
  for (const CounterCheck& counter : check.counters) {
    if (!TakesSlots(counter)) continue;
    const std::optional<Duration> ttl = LeaseTtl(*counter.limit);
    if (counter.group > 0 && !name_.keys.empty()) break;
    name_.ttl = std::min(name_.ttl, *ttl);
    if (counter.group == 0) name_.keys.push_back(counter.key);
  }
  if (name_.ttl == Duration::max()) return {};
  if (!may_lease && !name_.keys.empty()) {
    return Error{ErrorCode::kPermissionDenied,
                 "mode: the caller may not take leases (setting callers), and a concurrency limit "
                 "matches this request"};
  }
  name_.bits = RandomBytes();
  name_.local = false;
  check.lease = name_.lease();
  if (name_.keys.empty() || name_.ToText()) return {};
  return InvalidArgument(
      "attributes: the counters of all concurrency limits that match this request do not fit into "
      "a lease id of 2048 bytes");
}

// If some slots are in the store and some on this server, only those in the store are named; the
// others are freed when they expire.
std::optional<LeaseAnswer> CheckLease::Name(const StoreCheck& check,
                                            std::span<const LimitAnswer> limits,
                                            Fallback& fallback) {
  if (!check.lease) return std::nullopt;
  name_.keys.clear();
  CollectSlots(check, limits, Source::kStore, name_.keys);
  name_.local = name_.keys.empty();
  if (name_.local) CollectSlots(check, limits, Source::kFallback, name_.keys);
  // Shadow rules come last; slots that are not named are freed when they expire.
  for (; !name_.keys.empty(); name_.keys.pop_back()) {
    auto id = name_.ToText();
    if (!id) continue;
    if (name_.local) {
      fallback.leases.Granted(check.lease->id, SlotsOf(check, name_.keys),
                              SteadyNow() + check.lease->ttl);
    }
    return LeaseAnswer{.id = std::move(*id), .ttl = check.lease->ttl};
  }
  return std::nullopt;
}

}  // namespace sluice
