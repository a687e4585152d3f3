#include "store/store.h"

#include <algorithm>
#include <array>

namespace sluice {

std::string_view ToString(StoreFailure failure) {
  static constexpr std::array<std::string_view, kStoreFailures> kNames{
      "timeout",  "unsent",           "unreachable",   "overloaded",
      "rejected", "counter_rejected", "caller_timeout"};
  return kNames[static_cast<std::size_t>(failure)];
}

bool StoreCheck::HasNoUnits() const {
  return std::all_of(counters.begin(), counters.end(),
                     [](const CounterCheck& counter) { return counter.units == 0; });
}

std::optional<StoreFailure> StoreCheck::failure() const {
  for (const CounterCheck& counter : counters) {
    if (counter.failure) return counter.failure;
  }
  return std::nullopt;
}

void Answer(CounterCheck& counter, CounterReport report, const CoalescedChecks& checks,
            std::int64_t index) {
  counter.failure.reset();
  counter.decided_at = checks.now;
  counter.verdict = VerdictAt(*counter.limit, report, checks, index);
  counter.before = report.snapshot;
  counter.charged =
      checks.demand.mode == Mode::kConsume && index < checks.granted && checks.demand.units > 0;
}

void StoreCheck::Fail(StoreFailure failure) {
  admitted = false;
  for (CounterCheck& counter : counters) {
    counter.failure = failure;
    counter.charged = false;
    counter.grant = {};
  }
}

}  // namespace sluice
