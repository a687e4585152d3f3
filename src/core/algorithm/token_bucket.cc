#include "core/algorithm/token_bucket.h"

#include <fmt/format.h>

namespace sluice {

void TokenBucket::Describe(Parameters& its) {
  its.Rate("rate", rate, period, kMaxRate);
  its.Number("burst", burst, DripRate{rate, period}.SizeRange(1, 0), DefaultBurst(rate, period));
  its.Choice("initial", starts_empty, false, {{"full", false}, {"empty", true}});
  its.Flag("borrow", borrows, false);
  const std::int64_t refill =
      rate * Duration(std::chrono::milliseconds(10)).count() / period.count();
  if (borrows || burst >= refill) return;
  its.Warn(
      fmt::format("a burst of {} is less than what this rate refills in 10 ms ({}), so that "
                  "requests at the same moment are denied although they keep the rate",
                  burst, refill));
}

}  // namespace sluice
