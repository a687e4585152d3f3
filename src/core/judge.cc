#include "core/judge.h"

#include <algorithm>

namespace sluice {

Verdict JudgeNth(const Limit& limit, const CounterState& before, const Run& run,
                 std::int64_t index) {
  return std::visit(
      [&](const auto& algorithm) {
        using State = typename std::decay_t<decltype(algorithm)>::State;
        State state = std::get<State>(before);
        if (run.mode == Mode::kConsume) {
          algorithm.Take(state, run.cost, std::min(index + 1, run.granted));
        }
        const bool admitted = index < run.granted || algorithm.Grants(state, run.cost, 1) == 1;
        return algorithm.Judge(state, run.cost, admitted, run.now);
      },
      limit);
}

}  // namespace sluice
