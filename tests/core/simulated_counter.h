// A counter, with a clock that the test controls. The counter decides as a store does, but uses
// only src/core.
#pragma once

#include <optional>
#include <utility>

#include "core/algorithm/counter.h"

namespace sluice {

inline Lease MakeLease(std::int64_t number, Duration ttl) {
  Lease lease{.ttl = ttl};
  for (std::size_t i = 0; i < 8; ++i) lease.id[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return lease;
}

class SimulatedCounter {
 public:
  explicit SimulatedCounter(Limit limit) : limit_(std::move(limit)) {}

  // 2024-10-04 13:46:40 UTC.
  Time now{std::chrono::seconds(1'728'049'600)};

  SeenState seen;  // the state after the last check

  // With Concurrency, each call takes a new lease and does not renew it.
  Verdict Consume(std::int64_t cost = 1, std::optional<Duration> max_wait = {}) {
    sluice::CoalescedChecks checks{.demand = {{.max_wait = max_wait}, cost}};
    if (const auto* slots = std::get_if<Concurrency>(&limit_)) {
      checks.lease = MakeLease(--last_lease_, slots->ttl);
    }
    return Decide(checks);
  }
  Verdict Peek(std::int64_t cost = 1, std::optional<Duration> max_wait = {}) {
    return Decide({.demand = {{.mode = Mode::kPeek, .max_wait = max_wait}, cost}});
  }
  Verdict Charge(std::int64_t cost) { return Decide({.demand = {{.mode = Mode::kCharge}, cost}}); }
  Verdict Refund(std::int64_t cost, std::optional<Time> charged_at = {}) {
    return Decide({.demand = {{.mode = Mode::kRefund, .charged_at = charged_at}, cost}});
  }

  // For Concurrency.
  Verdict Take(const Lease& lease, std::int64_t cost = 1) {
    return Decide({.demand = {{}, cost}, .lease = lease});
  }
  Verdict Renew(const Lease& lease) {
    return Decide({.demand = {{.mode = Mode::kRenew}}, .lease = lease});
  }
  Verdict Release(const Lease& lease) {
    return Decide({.demand = {{.mode = Mode::kSettle}}, .lease = lease});
  }

  const Limit& limit() const { return limit_; }

 private:
  Verdict Decide(sluice::CoalescedChecks checks) {
    checks.now = now;
    CounterState state;
    WriteBack keep = WriteBack::kNo;
    if (state_) {
      state = *state_;
      keep = Advance(limit_, state, now);
    } else {
      keep = Open(limit_, state, now);
    }
    const bool looks = checks.demand.consumes_or_peeks();
    bool changed = keep == WriteBack::kAlways ||
                   (keep == WriteBack::kUnlessPeek && checks.demand.mode != Mode::kPeek);
    CounterReport report = looks ? Look(state, checks, changed) : Alter(state, checks, changed);
    if (changed) state_ = state;
    const Verdict verdict = VerdictAt(limit_, report, checks, 0);
    seen = {.snapshot = report.snapshot, .reset_at = now + verdict.reset_after, .at = now};
    if (checks.granted > 0 && checks.demand.mode == Mode::kConsume) {
      sluice::Take(limit_, seen.snapshot, checks.demand.units);
    }
    return verdict;
  }

  CounterReport Look(CounterState& state, sluice::CoalescedChecks& checks, bool& changed) const {
    checks.granted = Grants(limit_, state, checks.demand, 1);
    const CounterReport report{.snapshot = Summarize(limit_, state, checks)};
    if (checks.demand.mode == Mode::kConsume && checks.granted == 1 && checks.demand.units > 0) {
      sluice::Take(limit_, state, checks);
      changed = true;
    }
    return report;
  }

  CounterReport Alter(CounterState& state, const sluice::CoalescedChecks& checks,
                      bool& changed) const {
    const bool admitted = Admits(limit_, state, checks);
    ChangeResult done{.changed = false};
    if (checks.demand.mode != Mode::kRenew || admitted) done = Change(limit_, state, checks);
    changed |= done.changed;
    return {.snapshot = Summarize(limit_, state, checks),
            .admitted = admitted,
            .dropped = done.dropped};
  }

  const Limit limit_;
  std::int64_t last_lease_ = 0;
  std::optional<CounterState> state_;  // absent: the counter does not exist yet
};

}  // namespace sluice
