#include "tests/accuracy/judgement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace sluice::accuracy {

namespace {

// Orders by the time of the decision. Checks of one script call have the same time; granted ones
// are ordered first. This is right because a counter frees no units during a call: a check that was
// denied would also have been denied after the granted ones.
bool DecidedEarlier(const Outcome& a, const Outcome& b) {
  return std::tuple(a.decided_at, !a.admitted) < std::tuple(b.decided_at, !b.admitted);
}

Judgement JudgeCounter(const Subject& subject, std::vector<Outcome> outcomes) {
  std::stable_sort(outcomes.begin(), outcomes.end(), DecidedEarlier);
  Passages checks;
  Passages admitted;
  Judgement judgement;
  for (const Outcome& outcome : outcomes) {
    checks.push_back({outcome.decided_at, outcome.cost});
    if (!outcome.admitted) continue;
    admitted.push_back({outcome.decided_at + outcome.wait, outcome.cost});
    judgement.admitted += outcome.cost;
  }
  std::stable_sort(admitted.begin(), admitted.end(),
                   [](const Passage& a, const Passage& b) { return a.at < b.at; });
  judgement.checks = static_cast<std::int64_t>(outcomes.size());
  judgement.promise = subject.promise(admitted);
  judgement.densest =
      CheckEveryWindow(admitted, std::numeric_limits<std::int64_t>::max(), subject.size.window)
          .units;
  judgement.ideal = subject.ideal(checks);
  const std::int64_t least = subject.least ? subject.least(checks) : judgement.ideal;
  const std::int64_t most = subject.most ? subject.most(checks) : judgement.ideal;
  judgement.missing = std::max<std::int64_t>(0, least - judgement.admitted);
  judgement.surplus = std::max<std::int64_t>(0, judgement.admitted - most);
  return judgement;
}

}  // namespace

double Judgement::UnderPercent() const {
  if (ideal == 0) return 0;
  return 100.0 * static_cast<double>(ideal - admitted) / static_cast<double>(ideal);
}

void Judgement::Add(const Judgement& other) {
  checks += other.checks;
  unknown += other.unknown;
  admitted += other.admitted;
  promise.Add(other.promise);
  densest = std::max(densest, other.densest);
  ideal += other.ideal;
  missing += other.missing;
  surplus += other.surplus;
}

std::string Judgement::Mistake() const {
  if (promise.over > 0) return fmt::format("{} units too many", promise.over);
  if (surplus > 0) return fmt::format("{} units more than expected", surplus);
  if (missing > unknown) return fmt::format("{} units too few", missing);
  if (unknown > checks / 100) return fmt::format("{} checks without answer", unknown);
  if (checks == 0) return "no checks";
  return "";
}

Judgement Judge(const Subject& subject, const History& history) {
  std::map<int, std::vector<Outcome>> by_key;
  for (const Outcome& outcome : history.outcomes) by_key[outcome.key].push_back(outcome);
  Judgement judgement;
  for (const auto& [key, outcomes] : by_key) judgement.Add(JudgeCounter(subject, outcomes));
  judgement.checks += history.unknown;
  judgement.unknown = history.unknown;
  return judgement;
}

}  // namespace sluice::accuracy
