// Measures what metrics cost per check: what the limiter does for the metrics page, and nothing
// else. Compare this with the CPU of sluiced that scripts/bench.sh prints. To measure the
// difference for a whole server, compare two builds with `scripts/bench.sh --versus`.
//
//   cmake --preset release && cmake --build --preset release --target metrics_cost
//   build/release/bench/metrics_cost
#include <ctime>

#include <algorithm>
#include <array>
#include <cstdio>

#include "limiter/active_rules.h"
#include "limiter/limiter_metrics.h"

namespace sluice::bench {
namespace {

constexpr int kChecks = 2'000'000;
constexpr int kRounds = 9;

RuleSet OneRule() {
  Rule rule;
  rule.name = "per-user";
  rule.limits.limits = {TokenBucket{.rate = 10, .period = std::chrono::seconds(1), .burst = 20}};
  Domain domain;
  domain.name = "bench";
  domain.rules = {rule};
  return {domain};
}

// The CPU time of this thread.
double CpuNanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double NanosecondsPerCheck(const LimiterMetrics& metrics, const ActiveRules& rules) {
  const IndexedLimit limit{};  // its content does not matter
  const std::array<LimitAnswer, 1> limits{LimitAnswer{.rule = rules.index->rules().data()}};
  const std::array<RuleMatch, 1> matches{RuleMatch{.rule = limits[0].rule, .limits = {&limit, 1}}};
  const double begin = CpuNanoseconds();
  SteadyTime asked = SteadyNow();
  for (int i = 0; i < kChecks; ++i) {
    const SteadyTime received = SteadyNow();
    rules.CountWithoutLimits(matches);
    metrics.store_duration.Observe(SteadyNow() - asked);
    rules.CountVerdicts(limits, true);
    metrics.check_duration.Observe(SteadyNow() - received);
    asked = received;
  }
  return (CpuNanoseconds() - begin) / kChecks;
}

void Run() {
  MetricsRegistry registry;
  const LimiterMetrics metrics(registry);
  const ActiveRules rules(RuleIndex::Build(OneRule(), {}).value(), registry);
  std::array<double, kRounds> rounds{};
  for (double& round : rounds) round = NanosecondsPerCheck(metrics, rules);
  std::sort(rounds.begin(), rounds.end());
  std::printf("%.0f ns of CPU time a check (median of %d rounds; least %.0f)\n",
              rounds[kRounds / 2], kRounds, rounds[0]);
}

}  // namespace
}  // namespace sluice::bench

int main() { sluice::bench::Run(); }
