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

// The counters whose slots were taken by a decision of `taken_by`. Counters of a shadow rule are
// included only if the rule would have admitted the request.
void CollectSlots(const StoreCheck& check, std::span<const LimitAnswer> limits, Source taken_by,
                  LeaseName& name) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const LimitAnswer& limit = limits[i];
    const bool here = limit.source == taken_by && limit.state_known;
    if (!here || !TakesSlots(check.counters[i])) continue;
    const bool taken = std::ranges::all_of(limits, [&](const LimitAnswer& other) {
      return other.rule != limit.rule || other.verdict.admitted;
    });
    if (taken) name.AddSlots(check.counters[i]);
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

}  // namespace

Result<void> CheckLease::Prepare(StoreCheck& check, const CheckRequest& request,
                                 std::vector<LimitAnswer>& limits) {
  if (check.demand.mode != Mode::kConsume || check.counters.empty()) return {};
  return request.lease_ttl ? PrepareUnits(check, request, limits)
                           : PrepareSlots(check, request.may_lease);
}

// The lease lasts for the shortest ttl of the enforced limits. If there are none, those of the
// shadow rules apply.
Result<void> CheckLease::PrepareSlots(StoreCheck& check, bool may_lease) {
  name_.counters.clear();
  name_.ttl = Duration::max();
  for (const CounterCheck& counter : check.counters) {
    if (!TakesSlots(counter)) continue;
    if (counter.group > 0 && !name_.counters.empty()) break;
    name_.ttl = std::min(name_.ttl, LeaseTtl(*counter.limit));
    if (counter.group == 0) name_.AddSlots(counter);
  }
  if (name_.ttl == Duration::max()) return {};
  if (!may_lease && !name_.counters.empty()) {
    return MayNot("mode", ", and a concurrency limit matches this request");
  }
  name_.bits = RandomBytes();
  name_.local = name_.units = false;
  name_.amounts.clear();
  name_.SetTaken(LeaseName::kLatest);
  check.lease = name_.lease();
  if (name_.counters.empty() || name_.ToText()) return {};
  return DoesNotFit("concurrency limits");
}

Result<void> CheckLease::PrepareUnits(StoreCheck& check, const CheckRequest& request,
                                      std::vector<LimitAnswer>& limits) {
  if (!request.may_lease) return MayNot("lease_ttl", "");
  name_ = {.bits = RandomBytes(), .ttl = *request.lease_ttl, .units = true};
  for (std::size_t i = 0; i < limits.size() && check.counters[i].group == 0; ++i) {
    const Rule& rule = limits[i].rule->rule;
    if (*request.lease_ttl > rule.max_lease_ttl) {
      return InvalidArgument(fmt::format(
          "lease_ttl: is {}; rule \"{}\" allows at most {} "
          "(max_lease_ttl)",
          FormatDuration(*request.lease_ttl), rule.name, FormatDuration(rule.max_lease_ttl)));
    }
    if (!TakesSlots(check.counters[i])) continue;
    name_.ttl = std::min(name_.ttl, LeaseTtl(*check.counters[i].limit));
  }
  const auto amount_of = [&](std::string_view name) { return request.AmountOf(name); };
  while (!check.counters.empty()) {
    name_.amounts.clear();
    name_.counters.clear();
    for (std::size_t i = 0; i < limits.size(); ++i) {
      name_.Add(check.counters[i], limits[i].index, *limits[i].counts, amount_of);
      name_.counters.back().stays = true;  // the longest id
    }
    name_.SetTaken(LeaseName::kLatest);
    if (name_.ToText()) break;
    if (check.counters.back().group == 0) return DoesNotFit("limits");
    DropLastGroup(check, limits);
  }
  if (check.counters.empty()) return {};
  check.lease = name_.lease();
  check.leases_units = true;
  return {};
}

std::optional<LeaseAnswer> CheckLease::Name(const StoreCheck& check,
                                            std::span<const LimitAnswer> limits, Owed owed,
                                            Fallback& fallback) {
  if (!check.lease) return std::nullopt;
  return check.leases_units ? NameUnits(check, limits, owed, fallback)
                            : NameSlots(check, limits, fallback);
}

// If the store granted some slots and this server others, the id names only those of the store; the
// others are freed when they expire.
std::optional<LeaseAnswer> CheckLease::NameSlots(const StoreCheck& check,
                                                 std::span<const LimitAnswer> limits,
                                                 Fallback& fallback) {
  name_.counters.clear();
  CollectSlots(check, limits, Source::kStore, name_);
  name_.local = name_.counters.empty();
  if (name_.local) CollectSlots(check, limits, Source::kFallback, name_);
  // If the id is too long, the last counters, which are those of shadow rules, are left out. Their
  // slots are freed when they expire.
  for (; !name_.counters.empty(); name_.counters.pop_back()) {
    name_.SetTaken(name_.local ? fallback.clock.Now() : check.decided_at);
    auto id = name_.ToText();
    if (!id) continue;
    if (name_.local) {
      fallback.leases.Granted({.id = check.lease->id,
                               .held = SlotsOf(check, name_),
                               .expires = SteadyNow() + check.lease->ttl});
    }
    return LeaseAnswer{.id = std::move(*id), .ttl = check.lease->ttl};
  }
  return std::nullopt;
}

// If the store granted some units and this server others, the latter stay as taken. If neither
// decided a counter, there is nothing to settle.
std::optional<LeaseAnswer> CheckLease::NameUnits(const StoreCheck& check,
                                                 std::span<const LimitAnswer> limits, Owed owed,
                                                 Fallback& fallback) {
  if (check.demand.mode != Mode::kConsume) return std::nullopt;
  name_.local = !IsDecidedBy(limits, Source::kStore);
  name_.SetTaken(name_.local ? fallback.clock.Now() : check.decided_at);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    name_.counters[i].stays = !name_.local && check.counters[i].failure;
  }
  if (!name_.local) return LeaseAnswer{.id = *name_.ToText(), .ttl = check.lease->ttl};
  if (!IsDecidedBy(limits, Source::kFallback)) return std::nullopt;
  PendingLeases::Change lease{
      .id = check.lease->id, .expires = SteadyNow() + check.lease->ttl, .units = true};
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const CounterCheck& counter = check.counters[i];
    const auto added = i < owed.size() ? owed[i] : std::nullopt;
    const bool is_held = added || (limits[i].state_known && TakesLeases(*counter.limit));
    lease.held.push_back({.key = std::string(counter.key),
                          .count = is_held ? counter.units : 0,
                          .limit = *counter.limit,
                          .group = counter.group,
                          .added = added});
  }
  fallback.leases.Granted(std::move(lease));
  return LeaseAnswer{.id = *name_.ToText(), .ttl = check.lease->ttl};
}

}  // namespace sluice
