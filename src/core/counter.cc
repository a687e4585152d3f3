#include "core/counter.h"

#include <algorithm>
#include <type_traits>

namespace sluice {
namespace {

template <typename Algorithm>
using StateOf = typename std::decay_t<Algorithm>::State;
template <typename Algorithm>
using SnapshotOf = typename std::decay_t<Algorithm>::Snapshot;

template <typename Algorithm>
constexpr bool kLeases = std::is_same_v<std::decay_t<Algorithm>, Concurrency>;

}  // namespace

Keep Open(const Limit& limit, CounterState& state, Time now) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Open(state.emplace<StateOf<decltype(algorithm)>>(), now);
      },
      limit);
}

Keep Advance(const Limit& limit, CounterState& state, Time now) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Advance(std::get<StateOf<decltype(algorithm)>>(state), now);
      },
      limit);
}

std::int64_t Grants(const Limit& limit, const CounterState& state, const Demand& demand,
                    std::int64_t n) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Grants(std::get<StateOf<decltype(algorithm)>>(state), demand, n);
      },
      limit);
}

Duration Lifetime(const Limit& limit, const CounterState& state, Time now) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Lifetime(std::get<StateOf<decltype(algorithm)>>(state), now);
      },
      limit);
}

CounterState Seed(const Limit& limit, const SeenState& seen, const Share& share) {
  // One that cannot be divided is another's: see LimitFor.
  if (std::holds_alternative<WarmingBucket>(limit) && share.Of(1) == 0) {
    return TokenBucket::State{.level = 0, .last = seen.at};
  }
  return std::visit(
      [&](const auto& algorithm) -> CounterState { return algorithm.Seed(seen, share); }, limit);
}

std::int64_t Used(const Limit& limit, const CounterState& state) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Used(std::get<StateOf<decltype(algorithm)>>(state));
      },
      limit);
}

void Take(const Limit& limit, CounterState& state, const Run& run) {
  std::visit(
      [&](const auto& algorithm) {
        auto& taken_from = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (kLeases<decltype(algorithm)>) {
          algorithm.Take(taken_from, run.demand.cost, *run.lease);
        } else {
          algorithm.Take(taken_from, run.demand.cost, run.granted);
        }
      },
      limit);
}

bool Admits(const Limit& limit, const CounterState& state, const Run& run) {
  if (run.demand.mode == Mode::kCharge) return Grants(limit, state, run.demand, 1) == 1;
  if (run.demand.mode != Mode::kRenew) return true;
  return std::get<Concurrency>(limit).Holds(std::get<Concurrency::State>(state), *run.lease);
}

Changed Change(const Limit& limit, CounterState& state, const Run& run) {
  return std::visit(
      [&](const auto& algorithm) -> Changed {
        auto& changed = std::get<StateOf<decltype(algorithm)>>(state);
        const std::int64_t cost = run.demand.cost;
        if constexpr (kLeases<decltype(algorithm)>) {
          if (run.demand.mode == Mode::kRelease)
            return {.changed = algorithm.Release(changed, *run.lease)};
          if (run.demand.mode == Mode::kCharge)
            return {.dropped = algorithm.Charge(changed, cost, *run.lease)};
          algorithm.Renew(changed, *run.lease);
          return {};
        } else if (run.demand.mode == Mode::kCharge) {
          const std::int64_t dropped = algorithm.Charge(changed, cost);
          return {.changed = dropped < cost, .dropped = dropped};
        } else {
          return {.changed = algorithm.Refund(changed, cost, run.demand.charged_at)};
        }
      },
      limit);
}

Changed Undo(const Limit& limit, CounterState& state, const CounterSnapshot& before,
             const Run& run) {
  return std::visit(
      [&](const auto& algorithm) -> Changed {
        auto& changed = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (kLeases<decltype(algorithm)>) {
          return {.changed = algorithm.Release(changed, *run.lease)};
        } else {
          return algorithm.Undo(changed, run.demand.cost,
                                std::get<SnapshotOf<decltype(algorithm)>>(before));
        }
      },
      limit);
}

CounterSnapshot Summarise(const Limit& limit, const CounterState& state, const Run& run) {
  const std::int64_t taken = run.demand.mode == Mode::kConsume ? run.granted : 0;
  const std::int64_t cost = run.demand.cost;
  return std::visit(
      [&](const auto& algorithm) -> CounterSnapshot {
        const auto& summed = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (kLeases<decltype(algorithm)>) {
          return algorithm.Summarise(summed, cost, taken, run.lease, run.now);
        } else {
          return algorithm.Summarise(summed, cost, taken, run.now);
        }
      },
      limit);
}

CounterSnapshot SnapshotFromFields(const Limit& limit, const std::array<double, 3>& fields) {
  return std::visit(
      [&](const auto& algorithm) -> CounterSnapshot {
        return SnapshotOf<decltype(algorithm)>::FromFields(fields);
      },
      limit);
}

std::array<double, 3> FieldsOf(const CounterSnapshot& snapshot) {
  return std::visit([](const auto& it) { return it.ToFields(); }, snapshot);
}

Verdict JudgeNth(const Limit& limit, CounterReport& report, const Run& run, std::int64_t index) {
  return std::visit(
      [&](const auto& algorithm) {
        auto& snapshot = std::get<SnapshotOf<decltype(algorithm)>>(report.snapshot);
        if (!run.demand.consumes_or_peeks()) {
          Verdict verdict = algorithm.Judge(snapshot, run.demand, report.admitted, run.now);
          verdict.dropped = report.dropped;
          return verdict;
        }
        const bool consumes = run.demand.mode == Mode::kConsume;
        if (consumes) algorithm.Take(snapshot, run.demand.cost, std::min(index, run.granted));
        const bool admitted = index < run.granted || algorithm.Grants(snapshot, run.demand, 1) == 1;
        const Duration wait =
            admitted ? algorithm.Wait(snapshot, run.demand, run.now) : Duration::zero();
        auto after = snapshot;
        if (consumes && index < run.granted) algorithm.Take(after, run.demand.cost, 1);
        Verdict verdict = algorithm.Judge(after, run.demand, admitted, run.now);
        verdict.wait = wait;
        return verdict;
      },
      limit);
}

}  // namespace sluice
