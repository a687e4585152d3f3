#include "core/counter.h"

#include <algorithm>
#include <type_traits>

namespace sluice {
namespace {

template <typename Algorithm>
using StateOf = typename std::decay_t<Algorithm>::State;

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

std::int64_t Grants(const Limit& limit, const CounterState& state, std::int64_t cost,
                    std::int64_t n) {
  return std::visit(
      [&](const auto& algorithm) {
        return algorithm.Grants(std::get<StateOf<decltype(algorithm)>>(state), cost, n);
      },
      limit);
}

void Take(const Limit& limit, CounterState& state, std::int64_t cost, std::int64_t times) {
  std::visit(
      [&](const auto& algorithm) {
        algorithm.Take(std::get<StateOf<decltype(algorithm)>>(state), cost, times);
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

CounterSnapshot Summarise(const Limit& limit, const CounterState& state, const Run& run) {
  const std::int64_t taken = run.mode == Mode::kConsume ? run.granted : 0;
  return std::visit(
      [&](const auto& algorithm) -> CounterSnapshot {
        return algorithm.Summarise(std::get<StateOf<decltype(algorithm)>>(state), run.cost, taken,
                                   run.now);
      },
      limit);
}

Verdict JudgeNth(const Limit& limit, CounterSnapshot before, const Run& run, std::int64_t index) {
  return std::visit(
      [&](const auto& algorithm) {
        using Snapshot = typename std::decay_t<decltype(algorithm)>::Snapshot;
        auto& snapshot = std::get<Snapshot>(before);
        if (run.mode == Mode::kConsume) {
          algorithm.Take(snapshot, run.cost, std::min(index + 1, run.granted));
        }
        const bool admitted = index < run.granted || algorithm.Grants(snapshot, run.cost, 1) == 1;
        return algorithm.Judge(snapshot, run.cost, admitted, run.now);
      },
      limit);
}

}  // namespace sluice
