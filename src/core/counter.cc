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

WriteBack Open(const Limit& limit, CounterState& state, Time now) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Open(state.emplace<StateOf<decltype(algorithm)>>(), now);
      },
      limit);
}

WriteBack Advance(const Limit& limit, CounterState& state, Time now) {
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
  // A limit that cannot be divided belongs to another server: see LimitFor.
  if (std::holds_alternative<WarmingBucket>(limit) && share.Of(1) == 0) {
    return TokenBucket::State{.level = 0, .last = seen.at};
  }
  return std::visit(
      [&](const auto& algorithm) -> CounterState {
        const auto& snapshot = std::get<SnapshotOf<decltype(algorithm)>>(seen.snapshot);
        return algorithm.Seed(snapshot, seen.at, share);
      },
      limit);
}

std::size_t MemoryOf(const Limit& limit, const CounterState& state) {
  return std::visit(
      [&](const auto& algorithm) -> std::size_t {
        const auto& own = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (requires { algorithm.MemoryOf(own); }) return algorithm.MemoryOf(own);
        return 0;
      },
      limit);
}

bool MayGrow(const Limit& limit, const CounterState& state) {
  return std::visit(
      [&](const auto& algorithm) {
        const auto& own = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (requires { algorithm.MayGrow(own); }) return algorithm.MayGrow(own);
        return false;
      },
      limit);
}

std::int64_t Used(const Limit& limit, const CounterState& state) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Used(std::get<StateOf<decltype(algorithm)>>(state));
      },
      limit);
}

void Take(const Limit& limit, CounterState& state, const CoalescedChecks& checks) {
  std::visit(
      [&](const auto& algorithm) {
        auto& taken_from = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (kLeases<decltype(algorithm)>) {
          algorithm.Take(taken_from, checks.demand.cost, *checks.lease);
        } else {
          algorithm.Take(taken_from, checks.demand.cost, checks.granted);
        }
      },
      limit);
}

void Take(const Limit& limit, CounterSnapshot& snapshot, std::int64_t cost) {
  std::visit(
      [&](const auto& algorithm) {
        algorithm.Take(std::get<SnapshotOf<decltype(algorithm)>>(snapshot), cost, 1);
      },
      limit);
}

bool Admits(const Limit& limit, const CounterState& state, const CoalescedChecks& checks) {
  if (checks.demand.mode == Mode::kCharge) return Grants(limit, state, checks.demand, 1) == 1;
  if (checks.demand.mode != Mode::kRenew) return true;
  return std::get<Concurrency>(limit).Holds(std::get<Concurrency::State>(state), *checks.lease);
}

ChangeResult Change(const Limit& limit, CounterState& state, const CoalescedChecks& checks) {
  return std::visit(
      [&](const auto& algorithm) -> ChangeResult {
        auto& changed = std::get<StateOf<decltype(algorithm)>>(state);
        const std::int64_t cost = checks.demand.cost;
        if constexpr (kLeases<decltype(algorithm)>) {
          if (checks.demand.mode == Mode::kRelease)
            return {.changed = algorithm.Release(changed, *checks.lease)};
          if (checks.demand.mode == Mode::kCharge)
            return {.dropped = algorithm.Charge(changed, cost, *checks.lease)};
          algorithm.Renew(changed, *checks.lease);
          return {};
        } else if (checks.demand.mode == Mode::kCharge) {
          const std::int64_t dropped = algorithm.Charge(changed, cost);
          return {.changed = dropped < cost, .dropped = dropped};
        } else {
          return {.changed = algorithm.Refund(changed, cost, checks.demand.charged_at)};
        }
      },
      limit);
}

ChangeResult Undo(const Limit& limit, CounterState& state, const CounterSnapshot& before,
                  const CoalescedChecks& checks) {
  return std::visit(
      [&](const auto& algorithm) -> ChangeResult {
        auto& changed = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (kLeases<decltype(algorithm)>) {
          return {.changed = algorithm.Release(changed, *checks.lease)};
        } else {
          return algorithm.Undo(changed, checks.demand.cost,
                                std::get<SnapshotOf<decltype(algorithm)>>(before));
        }
      },
      limit);
}

CounterSnapshot Summarize(const Limit& limit, const CounterState& state,
                          const CoalescedChecks& checks) {
  const std::int64_t taken = checks.demand.mode == Mode::kConsume ? checks.granted : 0;
  const std::int64_t cost = checks.demand.cost;
  return std::visit(
      [&](const auto& algorithm) -> CounterSnapshot {
        const auto& summed = std::get<StateOf<decltype(algorithm)>>(state);
        if constexpr (kLeases<decltype(algorithm)>) {
          return algorithm.Summarize(summed, cost, taken, checks.lease, checks.now);
        } else {
          return algorithm.Summarize(summed, cost, taken, checks.now);
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

Verdict VerdictAt(const Limit& limit, CounterReport& report, const CoalescedChecks& checks,
                  std::int64_t index) {
  return std::visit(
      [&](const auto& algorithm) {
        auto& snapshot = std::get<SnapshotOf<decltype(algorithm)>>(report.snapshot);
        if (!checks.demand.consumes_or_peeks()) {
          Verdict verdict = algorithm.Judge(snapshot, checks.demand, report.admitted, checks.now);
          verdict.dropped = report.dropped;
          return verdict;
        }
        const bool consumes = checks.demand.mode == Mode::kConsume;
        if (consumes) algorithm.Take(snapshot, checks.demand.cost, std::min(index, checks.granted));
        const bool admitted =
            index < checks.granted || algorithm.Grants(snapshot, checks.demand, 1) == 1;
        const Duration wait =
            admitted ? algorithm.Wait(snapshot, checks.demand, checks.now) : Duration::zero();
        auto after = snapshot;
        if (consumes && index < checks.granted) algorithm.Take(after, checks.demand.cost, 1);
        Verdict verdict = algorithm.Judge(after, checks.demand, admitted, checks.now);
        verdict.wait = wait;
        return verdict;
      },
      limit);
}

}  // namespace sluice
