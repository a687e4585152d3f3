#include "limiter/check_lease.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/random.h"
#include "core/format.h"

namespace sluice {
namespace {

Error MayNot(std::string_view field, std::string_view reason) {
  return {ErrorCode::kPermissionDenied,
          fmt::format("{}: the caller may not take leases (setting callers){}", field, reason)};
}

Error DoesNotFit(std::string_view counters) {
  return InvalidArgument(fmt::format(
      "attributes: the counters of all {} that match this request do not fit into a lease id of "
      "{} bytes",
      counters, LeaseName::kMaxBytes));
}

bool TakesSlots(const CounterCheck& counter) {
  return counter.units > 0 && TakesLeases(*counter.limit);
}

// A shadow rule takes nothing unless all of its limits admit the request.
bool RuleAdmits(const LimitAnswer& limit, std::span<const LimitAnswer> limits) {
  return std::ranges::all_of(limits, [&](const LimitAnswer& other) {
    return other.rule != limit.rule || other.verdict.admitted;
  });
}

// Adds to `name` the counters that `taken_by` decided and from which the check took slots.
void CollectSlots(const StoreCheck& check, std::span<const LimitAnswer> limits, Source taken_by,
                  LeaseName& name) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const LimitAnswer& limit = limits[i];
    const bool here = limit.source == taken_by && limit.state_known;
    if (!here || !TakesSlots(check.counters[i])) continue;
    if (RuleAdmits(limit, limits)) name.AddSlots(check.counters[i]);
  }
}

std::vector<PendingLeases::Held> SlotsOf(const StoreCheck& check, const LeaseName& name) {
  std::vector<PendingLeases::Held> slots;
  for (const CounterCheck& counter : check.counters) {
    const auto named = std::ranges::find(name.counters, counter.key, &LeaseName::Counter::key);
    if (named == name.counters.end()) continue;
    slots.push_back({.key = std::string(counter.key), .count = counter.units});
  }
  return slots;
}

bool IsDecidedBy(std::span<const LimitAnswer> limits, Source source) {
  return std::ranges::any_of(
      limits, [&](const LimitAnswer& it) { return it.source == source && it.state_known; });
}

void DropLastGroup(StoreCheck& check, std::vector<LimitAnswer>& limits) {
  const std::uint16_t group = check.counters.back().group;
  while (check.counters.back().group == group) {
    check.counters.pop_back();
    limits.pop_back();
  }
}

// The lease lasts for the shortest ttl of the enforced concurrency limits. If there are none, it
// lasts for the shortest ttl of the shadow rules' concurrency limits.
Result<void> PrepareSlots(StoreCheck& check, bool may_lease, LeaseName& name) {
  name.counters.clear();
  name.ttl = Duration::max();
  for (const CounterCheck& counter : check.counters) {
    if (!TakesSlots(counter)) continue;
    if (counter.group > 0 && !name.counters.empty()) break;
    name.ttl = std::min(name.ttl, LeaseTtl(*counter.limit));
    if (counter.group == 0) name.AddSlots(counter);
  }
  if (name.ttl == Duration::max()) return {};
  if (!may_lease && !name.counters.empty()) {
    return MayNot("mode", ", and a concurrency limit matches this request");
  }
  name.bits = RandomBytes();
  name.local = name.units = false;
  name.amounts.clear();
  name.SetTaken(LeaseName::kLatest);
  check.lease = name.lease();
  if (name.counters.empty() || name.ToText()) return {};
  return DoesNotFit("concurrency limits");
}

Result<void> PrepareUnits(StoreCheck& check, const CheckRequest& request,
                          std::vector<LimitAnswer>& limits, LeaseName& name) {
  if (!request.may_lease) return MayNot("lease_ttl", "");
  name = {.bits = RandomBytes(), .ttl = *request.lease_ttl, .units = true};
  for (std::size_t i = 0; i < limits.size() && check.counters[i].group == 0; ++i) {
    const Rule& rule = limits[i].rule->rule;
    if (*request.lease_ttl > rule.max_lease_ttl) {
      return InvalidArgument(fmt::format(
          "lease_ttl: is {}; rule \"{}\" allows at most {} "
          "(max_lease_ttl)",
          FormatDuration(*request.lease_ttl), rule.name, FormatDuration(rule.max_lease_ttl)));
    }
    if (!TakesSlots(check.counters[i])) continue;
    name.ttl = std::min(name.ttl, LeaseTtl(*check.counters[i].limit));
  }
  const auto amount_of = [&](std::string_view amount) { return request.AmountOf(amount); };
  while (!check.counters.empty()) {
    name.amounts.clear();
    name.counters.clear();
    for (std::size_t i = 0; i < limits.size(); ++i) {
      name.Add(check.counters[i], limits[i].index, *limits[i].counts, amount_of);
      name.counters.back().stays = true;  // reserves room for this mark in the id
    }
    name.SetTaken(LeaseName::kLatest);
    if (name.ToText()) break;
    if (check.counters.back().group == 0) return DoesNotFit("limits");
    DropLastGroup(check, limits);
  }
  if (check.counters.empty()) return {};
  check.lease = name.lease();
  check.leases_units = true;
  return {};
}

// If the store granted some slots and this server others, the id names only the store's slots. This
// server's slots are freed when they expire.
std::optional<LeaseAnswer> NameSlots(const StoreCheck& check, std::span<const LimitAnswer> limits,
                                     Fallback& fallback, LeaseName& name) {
  name.counters.clear();
  CollectSlots(check, limits, Source::kStore, name);
  name.local = name.counters.empty();
  if (name.local) CollectSlots(check, limits, Source::kFallback, name);
  // If the id is too long, the last counters of shadow rules are left out. Their slots are freed
  // when they expire.
  for (; !name.counters.empty(); name.counters.pop_back()) {
    name.SetTaken(name.local ? fallback.clock.Now() : check.decided_at);
    auto id = name.ToText();
    if (!id) continue;
    if (name.local) {
      fallback.leases.Granted({.id = check.lease->id,
                               .held = SlotsOf(check, name),
                               .expires = SteadyNow() + check.lease->ttl});
    }
    return LeaseAnswer{.id = std::move(*id), .ttl = check.lease->ttl};
  }
  return std::nullopt;
}

// If the store granted some units and this server others, settling the lease will not change this
// server's units. If `on_store_failure` decided every counter without its state, nothing can be
// settled, so the check has no lease.
std::optional<LeaseAnswer> NameUnits(const StoreCheck& check, std::span<const LimitAnswer> limits,
                                     CheckLease::AddedCharges charges, Fallback& fallback,
                                     LeaseName& name) {
  if (check.demand.mode != Mode::kConsume) return std::nullopt;
  const bool takes = std::ranges::any_of(
      limits, [&](const LimitAnswer& limit) { return RuleAdmits(limit, limits); });
  if (!takes) return std::nullopt;
  name.local = !IsDecidedBy(limits, Source::kStore);
  name.SetTaken(name.local ? fallback.clock.Now() : check.decided_at);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    name.counters[i].stays = !name.local && check.counters[i].failure;
  }
  if (!name.local) return LeaseAnswer{.id = *name.ToText(), .ttl = check.lease->ttl};
  if (!IsDecidedBy(limits, Source::kFallback)) return std::nullopt;
  PendingLeases::Change lease{
      .id = check.lease->id, .expires = SteadyNow() + check.lease->ttl, .units = true};
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const CounterCheck& counter = check.counters[i];
    const auto added = i < charges.size() ? charges[i] : std::nullopt;
    const bool is_held = added || (limits[i].state_known && TakesLeases(*counter.limit));
    lease.held.push_back({.key = std::string(counter.key),
                          .count = is_held ? counter.units : 0,
                          .limit = *counter.limit,
                          .group = counter.group,
                          .added = added});
  }
  fallback.leases.Granted(std::move(lease));
  return LeaseAnswer{.id = *name.ToText(), .ttl = check.lease->ttl};
}

}  // namespace

Result<void> CheckLease::Prepare(StoreCheck& check, const CheckRequest& request,
                                 std::vector<LimitAnswer>& limits) {
  if (check.demand.mode != Mode::kConsume || check.counters.empty()) return {};
  may_lease_ = request.may_lease;
  return request.lease_ttl ? PrepareUnits(check, request, limits, name_)
                           : PrepareSlots(check, request.may_lease, name_);
}

std::optional<LeaseAnswer> CheckLease::Name(const StoreCheck& check,
                                            std::span<const LimitAnswer> limits,
                                            AddedCharges charges, Fallback& fallback) {
  if (!may_lease_) return std::nullopt;
  return check.leases_units ? NameUnits(check, limits, charges, fallback, name_)
                            : NameSlots(check, limits, fallback, name_);
}

}  // namespace sluice
