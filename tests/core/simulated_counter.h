// One counter and its clock in the hand of a test. Decides as a store does, with src/core alone.
#pragma once

#include <optional>
#include <utility>

#include "core/counter.h"

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

  // Of Concurrency, under a lease of its own that nobody renews.
  Verdict Consume(std::int64_t cost = 1, std::optional<Duration> max_wait = {}) {
    sluice::Run run{.demand = {.cost = cost, .max_wait = max_wait}};
    if (const auto* slots = std::get_if<Concurrency>(&limit_)) {
      run.lease = MakeLease(--last_lease_, slots->ttl);
    }
    return Decide(run);
  }
  Verdict Peek(std::int64_t cost = 1, std::optional<Duration> max_wait = {}) {
    return Decide({.demand = {.cost = cost, .mode = Mode::kPeek, .max_wait = max_wait}});
  }
  Verdict Charge(std::int64_t cost) {
    return Decide({.demand = {.cost = cost, .mode = Mode::kCharge}});
  }
  Verdict Refund(std::int64_t cost, std::optional<Time> charged_at = {}) {
    return Decide({.demand = {.cost = cost, .mode = Mode::kRefund, .charged_at = charged_at}});
  }

  // For Concurrency.
  Verdict Take(const Lease& lease, std::int64_t cost = 1) {
    return Decide({.demand = {.cost = cost}, .lease = lease});
  }
  Verdict Renew(const Lease& lease) {
    return Decide({.demand = {.mode = Mode::kRenew}, .lease = lease});
  }
  Verdict Release(const Lease& lease) {
    return Decide({.demand = {.mode = Mode::kRelease}, .lease = lease});
  }

  const Limit& limit() const { return limit_; }

 private:
  Verdict Decide(sluice::Run run) {
    run.now = now;
    CounterState state;
    Keep keep = Keep::kNo;
    if (state_) {
      state = *state_;
      keep = Advance(limit_, state, now);
    } else {
      keep = Open(limit_, state, now);
    }
    const bool looks = run.demand.consumes_or_peeks();
    bool changed =
        keep == Keep::kAlways || (keep == Keep::kUnlessPeek && run.demand.mode != Mode::kPeek);
    CounterReport report = looks ? Look(state, run, changed) : Alter(state, run, changed);
    if (changed) state_ = state;
    return JudgeNth(limit_, report, run, 0);
  }

  CounterReport Look(CounterState& state, sluice::Run& run, bool& changed) const {
    run.granted = Grants(limit_, state, run.demand, 1);
    const CounterReport report{.snapshot = Summarise(limit_, state, run)};
    if (run.demand.mode == Mode::kConsume && run.granted == 1 && run.demand.cost > 0) {
      sluice::Take(limit_, state, run);
      changed = true;
    }
    return report;
  }

  CounterReport Alter(CounterState& state, const sluice::Run& run, bool& changed) const {
    const bool admitted = Admits(limit_, state, run);
    Changed done{.changed = false};
    if (run.demand.mode != Mode::kRenew || admitted) done = Change(limit_, state, run);
    changed |= done.changed;
    return {
        .snapshot = Summarise(limit_, state, run), .admitted = admitted, .dropped = done.dropped};
  }

  const Limit limit_;
  std::int64_t last_lease_ = 0;
  std::optional<CounterState> state_;  // absent: the counter does not exist yet
};

}  // namespace sluice
