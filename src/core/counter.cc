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

Verdict JudgeNth(const Limit& limit, CounterState before, const Run& run, std::int64_t index) {
  if (run.mode == Mode::kConsume) {
    Take(limit, before, run.cost, std::min(index + 1, run.granted));
  }
  const bool admitted = index < run.granted || Grants(limit, before, run.cost, 1) == 1;
  return std::visit(
      [&](const auto& algorithm) {
        const auto& state = std::get<StateOf<decltype(algorithm)>>(before);
        return algorithm.Judge(state, run.cost, admitted, run.now);
      },
      limit);
}

}  // namespace sluice
