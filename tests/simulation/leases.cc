#include "tests/simulation/leases.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "tests/simulation/rules.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestHold(200);  // of leases that hold only slots
constexpr milliseconds kRetryPause(100);   // after a failure

}  // namespace

void Leases::OnTaken(TakenLease taken) {
  World& world = context_.world;
  Lease& lease = *leases_.emplace_back(std::make_unique<Lease>());
  lease.ends = taken.asked + taken.ttl;
  lease.returned.resize(taken.limits.size());
  lease.taken = std::move(taken);
  Hold(lease);
  if (lease.taken.of_units) return PlanUnits(lease);
  world.After(world.Between(Duration(0), kLongestHold), [this, &lease] {
    GiveBackSlots(lease);
    Release(lease);
  });
}

void Leases::Hold(Lease& lease) {
  if (lease.ends <= context_.world.now()) return;
  lease.holds_slots = true;
  for (const LeasedLimit& limit : lease.taken.limits) {
    if (!TakesLeases(limit.limit) || !limit.is_known() || !limit.counted_by_store) continue;
    context_.ledger.Hold(limit.counters.front(), limit.units);
  }
  EndSlots(lease);
}

void Leases::GiveBackSlots(Lease& lease) {
  if (!std::exchange(lease.holds_slots, false)) return;
  for (const LeasedLimit& limit : lease.taken.limits) {
    if (!TakesLeases(limit.limit) || !limit.is_known() || !limit.counted_by_store) continue;
    context_.ledger.GiveBack(limit.counters.front(), limit.units);
  }
}

// The slots end at lease.ends, unless the lease is renewed before.
void Leases::EndSlots(Lease& lease) {
  context_.world.At(lease.ends, [this, &lease, ends = lease.ends] {
    if (ends == lease.ends) GiveBackSlots(lease);
  });
}

// Tries until the lease is known to be released.
void Leases::Release(Lease& lease) {
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(lease.taken.id);
  request.set_hold_outcome(DrawOutcome());
  const auto on_outcome = [this, &lease](const Caller::Outcome& outcome) {
    if (outcome.status == 0 || over_) return;
    context_.world.After(kRetryPause, [this, &lease] { Release(lease); });
  };
  context_.fleet.CallerOf(lease.taken.server)
      .Call("ReleaseLease", request.SerializeAsString(), Duration(0), on_outcome);
}

// One in six callers crashes and never settles.
void Leases::PlanUnits(Lease& lease) {
  World& world = context_.world;
  const Duration ttl = lease.taken.ttl;
  ++context_.report.leases;
  if (world.OneIn(3)) {
    world.After(world.Between(Duration(0), ttl), [this, &lease] { Renew(lease); });
  }
  if (world.OneIn(6)) return;
  const Duration lasts = world.Between(Duration(0), world.OneIn(4) ? 3 * ttl / 2 : ttl / 2);
  const std::uint64_t times = world.OneIn(3) ? 2 + world.Below(2) : 1;
  for (std::uint64_t i = 0; i < times; ++i) {
    const Duration later = i == 0 ? Duration(0) : world.Between(Duration(0), milliseconds(50));
    world.After(lasts + later, [this, &lease, attempt = DrawAttempt()] {
      GiveBackSlots(lease);
      Settle(lease, attempt);
    });
  }
}

void Leases::Call(std::int64_t server, const char* method, const std::string& request,
                  Caller::OnOutcome on_outcome) {
  World& world = context_.world;
  const Duration timeouts[] = {Duration(0), Duration(0), Duration(0), milliseconds(5),
                               milliseconds(20)};
  Caller& caller = context_.fleet.CallerOf(server);
  const int number = caller.Call(method, request, world.Pick(timeouts), std::move(on_outcome));
  if (!world.OneIn(8)) return;
  world.After(world.Between(Duration(0), milliseconds(10)),
              [&caller, number] { caller.Cancel(number); });
}

void Leases::Renew(Lease& lease) {
  if (over_) return;
  v1::RenewLeaseRequest request;
  request.set_lease_id(lease.taken.id);
  const auto on_outcome = [this, &lease, asked = context_.world.now()](const auto& outcome) {
    const bool fails = outcome.status == 4 || outcome.status == 5 || outcome.status == 14;
    if (outcome.status > 0 && !fails) {
      Break(fmt::format("a renewal was answered with status {}", outcome.status));
    }
    if (outcome.status != 0 || !lease.holds_slots) return;
    lease.ends = std::max(lease.ends, asked + lease.taken.ttl);
    EndSlots(lease);
  };
  Call(AnyServer(), "RenewLease", request.SerializeAsString(), on_outcome);
}

Leases::Attempt Leases::DrawAttempt() {
  World& world = context_.world;
  Attempt attempt{.server = AnyServer(), .releases = world.OneIn(6)};
  if (attempt.releases) return attempt;
  const bool more = world.OneIn(4);
  const auto used = [&]() -> std::optional<std::int64_t> {
    if (world.OneIn(5)) return std::nullopt;
    return static_cast<std::int64_t>(more ? 2 + world.Below(4) : world.Below(4));
  };
  attempt.cost = used();
  attempt.tokens = used();
  return attempt;
}

void Leases::Settle(Lease& lease, Attempt drawn) {
  if (over_) return;
  Attempt& attempt = *lease.attempts.emplace_back(std::make_unique<Attempt>(std::move(drawn)));
  v1::SettleLeaseRequest request;
  request.set_lease_id(lease.taken.id);
  if (!attempt.releases) request.set_hold_outcome(DrawOutcome());
  if (attempt.cost) request.set_cost(static_cast<std::uint64_t>(*attempt.cost));
  if (attempt.tokens) {
    (*request.mutable_amounts())[kTokens] = static_cast<std::uint64_t>(*attempt.tokens);
  }
  for (std::size_t i = 0; i < lease.returned.size(); ++i) {
    const LeasedLimit& limit = lease.taken.limits[i];
    const auto used = attempt.UsedOf(limit);
    const std::int64_t more = limit.units - used - lease.returned[i];
    if (more <= 0) continue;
    lease.returned[i] += more;
    for (const std::string& counter : limit.counters) context_.ledger.Return(counter, more);
  }
  Call(attempt.server, attempt.releases ? "ReleaseLease" : "SettleLease",
       request.SerializeAsString(), [this, &lease, &attempt](const Caller::Outcome& outcome) {
         OnSettled(lease, attempt, outcome);
       });
}

// Three in four callers repeat a settlement that failed.
void Leases::OnSettled(Lease& lease, Attempt& attempt, const Caller::Outcome& outcome) {
  World& world = context_.world;
  attempt.crashes = context_.fleet.CrashesOf(attempt.server);
  if (outcome.status == 0 && !attempt.releases) {
    v1::SettleLeaseResponse response;
    test::Require(response.ParseFromString(outcome.response), "an answer is not a valid message");
    JudgeAnswer(lease, attempt, response);
  }
  context_.report.history += fmt::format("settled {} {}\n", outcome.status, int(attempt.fate));
  if (outcome.status == 0) return;
  if (outcome.status > 0 && outcome.status != 4 && outcome.status != 14) {
    Break(fmt::format("a settlement was answered with status {}", outcome.status));
  }
  if (world.OneIn(4)) return;
  Attempt again = attempt;
  again.server = AnyServer();
  world.After(kRetryPause, [this, &lease, again] { Settle(lease, again); });
}

void Leases::JudgeAnswer(const Lease& lease, Attempt& attempt,
                         const v1::SettleLeaseResponse& response) {
  switch (response.outcome()) {
    case v1::OUTCOME_SETTLED:
      attempt.fate = Fate::kSettled;
      ++context_.report.settled;
      break;
    case v1::OUTCOME_ALREADY_SETTLED:
      attempt.fate = Fate::kAlreadySettled;
      return;
    case v1::OUTCOME_NOT_FOUND:
      attempt.fate = Fate::kNotFound;
      return;
    case v1::OUTCOME_QUEUED:
      attempt.fate = Fate::kQueued;
      ++context_.report.queued;
      return;
    default:
      return Break("a settlement was answered without an outcome");
  }
  int entry = 0;
  for (const LeasedLimit& limit : lease.taken.limits) {
    const bool stays = lease.IsInStore() && !limit.in_store;
    const bool has_entry = !stays && entry < response.limits_size();
    const v1::LimitStatus status = has_entry ? response.limits(entry) : v1::LimitStatus();
    entry += stays ? 0 : 1;
    attempt.dropped.push_back(static_cast<std::int64_t>(status.dropped_cost()));
    const auto held = static_cast<std::int64_t>(status.held());
    attempt.held.push_back(held);
    const bool by_another = held == 0 && lease.attempts.size() > 1;
    if (!limit.in_store || held == limit.units || by_another || !Remembers()) continue;
    Break(fmt::format("{}: a settlement found {} units held instead of {}", limit.counters.front(),
                      held, limit.units));
  }
  if (response.limits_size() != entry) {
    Break("the answer to a settlement has the wrong number of limits");
  }
}

std::int64_t Leases::Attempt::UsedOf(const LeasedLimit& limit) const {
  if (TakesLeases(limit.limit)) return limit.units;
  return (Rules::CountsTokens(limit.counters.front()) ? tokens : cost).value_or(limit.units);
}

bool Leases::Attempt::MayChange(const LeasedLimit& limit, std::size_t index) const {
  if (fate == Fate::kSettled) return limit.units == 0 || held[index] > 0;
  return fate == Fate::kUnknown || fate == Fate::kQueued;
}

void Leases::Judge() {
  over_ = true;
  for (const auto& lease : leases_) {
    if (lease->taken.of_units) JudgeLease(*lease);
  }
}

void Leases::JudgeLease(const Lease& lease) {
  const auto count = [&](Fate fate) {
    return std::count_if(lease.attempts.begin(), lease.attempts.end(),
                         [&](const auto& attempt) { return attempt->fate == fate; });
  };
  const std::string& name = lease.taken.limits.front().counters.front();
  const auto may_be_first = count(Fate::kSettled) + count(Fate::kUnknown) + count(Fate::kQueued);
  if (count(Fate::kAlreadySettled) > 0 && may_be_first == 0) {
    Break(fmt::format("{}: a lease was already settled, but nobody had settled it", name));
  }
  if (count(Fate::kNotFound) > 0 && lease.IsInStore() && Remembers()) {
    Break(fmt::format("{}: a lease was not found", name));
  }
  for (std::size_t i = 0; i < lease.taken.limits.size(); ++i) JudgeLimit(lease, i);
}

void Leases::JudgeLimit(const Lease& lease, std::size_t index) {
  const LeasedLimit& limit = lease.taken.limits[index];
  const auto first = std::count_if(lease.attempts.begin(), lease.attempts.end(),
                                   [&](const auto& it) { return it->IsFirst(limit, index); });
  if (first > 1 && Remembers()) {
    Break(fmt::format("{}: a lease was settled {} times", limit.counters.front(), first));
  }
  const Range effect = EffectOf(lease, index);
  for (const std::string& counter : limit.counters) {
    context_.ledger.Settle(counter, effect.least, effect.most);
  }
}

bool Leases::Lease::IsInStore() const {
  return std::any_of(taken.limits.begin(), taken.limits.end(),
                     [](const LeasedLimit& limit) { return limit.in_store; });
}

// Whether this settlement, or one before it, certainly had its effect.
bool Leases::IsApplied(const Attempt& attempt) const {
  const Fleet& fleet = context_.fleet;
  if (!Remembers()) return false;
  return attempt.fate == Fate::kSettled ||
         (attempt.fate == Fate::kQueued && attempt.crashes == fleet.CrashesOf(attempt.server));
}

// The range by which settling changed what a counter holds. Unless the store certainly admitted the
// units to this counter, the minimum is 0. Exception: if fallback admitted units, and some of them
// left a bucket before the bucket was charged, settling gives them back as if they had been
// charged. Then the minimum may be negative. If it is unknown whether the units were charged, they
// may stay, so the maximum is at least 0.
Leases::Range Leases::EffectOf(const Lease& lease, std::size_t index) const {
  const LeasedLimit& limit = lease.taken.limits[index];
  if (lease.IsInStore() && !limit.in_store) return {};
  const bool is_sure = std::any_of(lease.attempts.begin(), lease.attempts.end(),
                                   [&](const auto& it) { return IsApplied(*it); });
  const bool first_is_known =
      is_sure && std::any_of(lease.attempts.begin(), lease.attempts.end(),
                             [&](const auto& it) { return it->IsFirst(limit, index); });
  Range range{.least = is_sure ? std::numeric_limits<std::int64_t>::max() : 0,
              .most = is_sure ? std::numeric_limits<std::int64_t>::min() : 0};
  for (const auto& attempt : lease.attempts) {
    if (!attempt->MayChange(limit, index)) continue;
    if (first_is_known && !attempt->IsFirst(limit, index)) continue;
    std::int64_t change = attempt->UsedOf(limit) - limit.units;
    if (change < 0 && !RefundsInFull(limit.limit)) change = 0;
    if (change > 0 && !attempt->dropped.empty()) change -= attempt->dropped[index];
    range.least = std::min(range.least, change);
    range.most = std::max(range.most, change);
  }
  if (range.least > range.most) range = {};
  const bool counts = limit.is_known() && limit.counted_by_store;
  const bool may_have_left =
      !counts && !lease.IsInStore() && context_.ledger.Refills(limit.counters);
  if (!counts) range.least = may_have_left ? std::min<std::int64_t>(range.least, 0) : 0;
  const bool may_stay =
      !lease.IsInStore() && context_.fleet.MayHaveUnknownCharges(lease.taken.server);
  if (!limit.is_known() || may_stay) range.most = std::max<std::int64_t>(range.most, 0);
  return range;
}

}  // namespace sluice::simulation
