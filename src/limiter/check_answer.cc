#include "limiter/check_answer.h"

#include <algorithm>

namespace sluice {

void CheckAnswer::Clear() {
  limits.clear();
  missing_attributes.clear();
  uncounted_amounts.clear();
  *this = CheckAnswer{.limits = std::move(limits),
                      .missing_attributes = std::move(missing_attributes),
                      .uncounted_amounts = std::move(uncounted_amounts)};
}

bool CheckAnswer::AnyLimitDenies() const {
  return std::any_of(limits.begin(), limits.end(),
                     [](const LimitAnswer& limit) { return limit.denies(); });
}

Duration CheckAnswer::LongestWait() const {
  Duration longest{};
  for (const LimitAnswer& limit : limits) {
    if (!limit.rule->rule.shadow) longest = std::max(longest, limit.verdict.wait);
  }
  return longest;
}

std::optional<Duration> CheckAnswer::LongestRetry() const {
  std::optional<Duration> longest;
  for (const LimitAnswer& limit : limits) {
    if (!limit.denies()) continue;
    if (limit.verdict.retry_after == Verdict::kNever) return std::nullopt;
    longest = std::max(longest.value_or(Duration::zero()), limit.verdict.retry_after);
  }
  return longest;
}

}  // namespace sluice
