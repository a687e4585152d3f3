#include "limiter/lease_call.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

Mode ModeOf(LeaseCall::Action action) {
  if (action == LeaseCall::Action::kRenew) return Mode::kRenew;
  return action == LeaseCall::Action::kInspect ? Mode::kInspect : Mode::kSettle;
}

LeaseOutcome OutcomeOf(Settled settled) {
  if (settled == Settled::kSettled) return LeaseOutcome::kSettled;
  const bool again = settled == Settled::kAlreadySettled;
  return again ? LeaseOutcome::kAlreadySettled : LeaseOutcome::kNotFound;
}

}  // namespace

void LeaseCall::Start(Action action, std::string_view lease_id, SteadyTime caller_deadline,
                      const Usage& usage) {
  auto name = LeaseName::Parse(lease_id);
  if (!name) return OnLease(name.error());
  name_ = std::move(*name);
  report_ = {};
  // Without Redis, there is only one store. If a caller has changed `store` to `local` in an id,
  // the id still names the lease in that store.
  name_.local &= limiter_.falls_back();
  if (action == Action::kInspect && !name_.units) {
    return OnLease(InvalidArgument("lease_id: is a lease of slots; allowed is a lease of units"));
  }
  name_.FillIn(*this);
  demand.mode = ModeOf(action);
  if (auto valid = Interpret(usage); !valid) return OnLease(valid.error());
  if (demand.mode == Mode::kSettle) ReportHold(usage);
  limiter_.SetDeadlines(*this, SteadyNow(), caller_deadline);
  by_fallback_ = name_.local;
  asks_for_another_ = false;
  if (name_.local) local_ = limiter_.fallback().UseShares(*this);
  (name_.local ? limiter_.local_store() : limiter_.store()).Submit(*this);
}

// Sets the used units of each counter that counts an amount of `usage`.
Result<void> LeaseCall::Interpret(const Usage& usage) {
  if (auto valid = ValidateUnits(usage.cost.value_or(1), usage.amounts); !valid) return valid;
  auto values = name_.amounts;
  std::vector<bool> is_given(values.size());
  const auto set = [&](std::string_view name, std::int64_t value) {
    const auto found = std::ranges::find(values, name, &LeaseName::Amount::name);
    if (found == values.end()) return false;
    found->value = value;
    is_given[static_cast<std::size_t>(found - values.begin())] = true;
    return true;
  };
  if (usage.cost) static_cast<void>(set(CountedAmount::kCost, *usage.cost));
  for (const Amount& amount : usage.amounts) {
    if (!set(amount.name, amount.value)) report_.uncounted_amounts.emplace_back(amount.name);
  }
  for (std::size_t i = 0; i < counters.size() && name_.units; ++i) {
    const LeaseName::Counter& counter = name_.counters[i];
    const bool changes = std::ranges::any_of(
        counter.counts, [&](const auto& counted) { return is_given[counted.amount]; });
    if (!changes || TakesLeases(counter.limit)) continue;
    const auto units = LeaseName::UnitsOf(counter, values);
    if (!units) {
      return InvalidArgument(fmt::format("amounts: rule \"{}\" limits[{}] counts more than 2^53",
                                         LeaseName::RuleOf(counter), counter.index));
    }
    counters[i].units = *units;
  }
  return {};
}

// Reports how the hold went, if a limit learns from it.
void LeaseCall::ReportHold(const Usage& usage) {
  if (!name_.taken || usage.outcome == HoldOutcome::kIgnore) return;
  lease->report = HoldReport{.taken = *name_.taken, .duration = usage.duration};
  if (usage.outcome == HoldOutcome::kOverload) lease->report->duration = HoldReport::kOverload;
}

// This server does not have the lease. If another server granted it while the store failed, the
// other server reports it to the store.
void LeaseCall::AskStore() {
  by_fallback_ = false;
  asks_for_another_ = true;
  lease->id = NameInStore(lease->id);
  for (std::size_t i = 0; i < counters.size(); ++i) counters[i].limit = &name_.counters[i].limit;
  limiter_.store().Submit(*this);
}

bool LeaseCall::MayNotBeReportedYet() const {
  return std::ranges::any_of(counters, [this](const CounterCheck& it) {
    return limiter_.fallback().InGracePeriod(it.key);
  });
}

void LeaseCall::OnDecided() {
  if (by_fallback_) return OnDecidedHere();
  // A settlement gives units back, so remembered denials are outdated. This also holds for a failed
  // settlement, because it may still have run.
  if (name_.units && demand.mode == Mode::kSettle) {
    Clearings& clearings = limiter_.fallback().clearings;
    for (const CounterCheck& counter : counters) clearings.Note(counter.key, SteadyNow());
  }
  if (const auto failed = failure()) return OnFailure(*failed);
  const bool is_missing = !name_.units || settled == Settled::kNotFound;
  if (asks_for_another_ && is_missing && MayNotBeReportedYet()) {
    return OnLease(Error{
        ErrorCode::kUnavailable,
        "the store has only just become available again, and the server that granted the lease may "
        "not have reported it yet"});
  }
  if (demand.mode == Mode::kRenew && !admitted) {
    return OnLease(
        Error{ErrorCode::kNotFound,
              "lease_id: the lease has expired or was released; it cannot be taken again"});
  }
  Report(name_.units ? OutcomeOf(settled) : LeaseOutcome::kSettled);
}

// This server's memory has decided: queues the change for the store, or corrects what is pending.
// The memory accepts the release of any lease, so only the pending entries show whether this server
// granted the lease.
void LeaseCall::OnDecidedHere() {
  Fallback& fallback = limiter_.fallback();
  if (demand.mode == Mode::kRenew) {
    if (!admitted) return AskStore();
    fallback.leases.Renewed(lease->id, SteadyNow() + lease->ttl);
    return Report(LeaseOutcome::kSettled);
  }
  if (demand.mode == Mode::kInspect) {
    return settled == Settled::kSettled ? Report(LeaseOutcome::kSettled) : AskStore();
  }
  if (!name_.units) {
    const bool is_known = admitted && fallback.leases.Released(lease->id);
    return is_known ? Report(LeaseOutcome::kSettled) : AskStore();
  }
  if (const auto outcome = fallback.SettleLease(*this)) return Report(*outcome);
  if (settled == Settled::kAlreadySettled) return Report(LeaseOutcome::kAlreadySettled);
  AskStore();
}

void LeaseCall::OnFailure(StoreFailure failure) {
  const bool settles = name_.units && demand.mode == Mode::kSettle;
  lease->report.reset();  // otherwise the slots would seem to be held until the store answers
  const bool is_queued = settles && limiter_.store().Settle(*this);
  // When the store answers again, the server that granted the lease may not have reported it yet.
  const bool may_be_lost = settles && asks_for_another_;
  const std::string_view fate =
      may_be_lost
          ? "settle the lease again: the server that granted it may not have reported it yet"
      : is_queued ? "the lease will be settled when the store answers"
      : settles   ? "too many settlements already wait for the store"
                  : "the lease is valid until its ttl has passed";
  if (failure == StoreFailure::kCallerTimeout) {
    return OnLease(Error{ErrorCode::kDeadlineExceeded,
                         fmt::format("the deadline passed before the store answered; {}", fate)});
  }
  if (is_queued && !may_be_lost) return Report(LeaseOutcome::kQueued);
  OnLease(Error{ErrorCode::kUnavailable,
                fmt::format("the store failed ({}); {}", ToString(failure), fate)});
}

HoldResult LeaseCall::ResultOf(const Adaptation& adapt) const {
  if (!lease->report) return HoldResult::kIgnored;
  if (lease->report->duration == HoldReport::kOverload) return HoldResult::kOverload;
  const Duration took = lease->report->duration.value_or(decided_at - lease->report->taken);
  return took > adapt.latency ? HoldResult::kTooSlow : HoldResult::kInTime;
}

void LeaseCall::CountHolds() const {
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const Adaptation* const adapt = AdaptationOf(*counters[i].limit);
    if (adapt == nullptr) continue;
    const LeaseName::Counter& named = name_.counters[i];
    limiter_.RulesForThisThread()->CountHold(LeaseName::DomainOf(named), LeaseName::RuleOf(named),
                                             ResultOf(*adapt), counters[i].verdict.dropped);
  }
}

void LeaseCall::Report(LeaseOutcome outcome) {
  report_.outcome = outcome;
  report_.ttl = lease->ttl;
  report_.ends = lease_ends;
  if (name_.units && demand.mode == Mode::kSettle) limiter_.metrics().Count(outcome);
  if (outcome == LeaseOutcome::kSettled && demand.mode == Mode::kSettle) {
    CountHolds();
    if (name_.units) limiter_.metrics().CountSettled(*this);
  }
  for (std::size_t i = 0; i < counters.size() && name_.units; ++i) {
    if (outcome != LeaseOutcome::kSettled) break;
    const CounterCheck& counter = counters[i];
    const std::int64_t held = std::max<std::int64_t>(counter.held, 0);
    report_.limits.push_back({.counter = name_.counters[i],
                              .held = held,
                              .units = counter.units == kAsTaken ? held : counter.units,
                              .source = by_fallback_ ? Source::kFallback : Source::kStore,
                              .verdict = counter.verdict});
    LeasedLimit& limit = report_.limits.back();
    if (limit.units <= limit.held) limit.verdict.dropped = 0;
  }
  report_.taken = name_.amounts;
  OnLease(report_);
}

}  // namespace sluice
