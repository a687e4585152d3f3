#include "core/algorithm/token_bucket.h"

#include <fmt/format.h>

namespace sluice {

void TokenBucket::Describe(Parameters& its) {
  its.Rate("rate", rate, period, kMaxRate);
  its.Number("burst", burst, DripRate{rate, period}.SizeRange(1, 0), DefaultBurst(rate, period));
  its.Choice("initial", starts_empty, false, {{"full", false}, {"empty", true}});
  its.Flag("borrow", borrows, false);
  if (borrows) {
    its.Refuse("prefetch", "only without borrow: true");
  } else {
    its.LengthIfAny("prefetch", prefetch, kMinPrefetch, kMaxPrefetch);
  }
  const std::int64_t refill =
      rate * Duration(std::chrono::milliseconds(10)).count() / period.count();
  if (borrows || burst >= refill) return;
  its.Warn(
      fmt::format("a burst of {} is less than this rate refills in 10 ms ({}), so requests that "
                  "arrive together are denied although they do not exceed the rate",
                  burst, refill));
}

ChangeResult TokenBucket::Undo(State& state, std::int64_t cost, const Snapshot& before) const {
  const std::int64_t found = before.level + before.out * period.count();
  const std::int64_t missing = Capacity() - (found - cost * period.count());
  const Duration elapsed = state.last - before.last;
  if (elapsed < Duration::zero()) return {.changed = false, .dropped = cost};
  if (missing <= 0 || elapsed.count() >= CeilDiv(missing, rate)) return {.changed = false};
  const std::int64_t left = missing - elapsed.count() * rate;
  state.level = std::min(Room(state), state.level + std::min(left, cost * period.count()));
  return {};
}

Verdict TokenBucket::Judge(const Snapshot& state, const CounterDemand& demand, bool admitted,
                           Time now) const {
  const Duration ahead = state.last - now;  // clock skew, which must pass first
  Verdict verdict{.admitted = admitted,
                  .limit = burst,
                  .remaining = std::max<std::int64_t>(0, state.level / period.count()),
                  .reset_after = TimeToReach(Capacity(), state) + ahead};
  if (demand.units <= MostAtOnce()) {
    const std::int64_t due = Due(demand) - Advanced(demand);
    const std::int64_t room = demand.units * period.count() - MaxDebt();
    verdict.retry_after = TimeToReach(std::max(due, room), state) + ahead;
  }
  return verdict;
}

TokenBucket::State TokenBucket::Seed(const Snapshot& seen, Time, const Share& share) const {
  const TokenBucket shared = For(share);
  const std::int64_t level =
      DripRate{shared.rate, shared.period}.ShareOf(seen.level, period, share);
  return {{std::clamp(level, -shared.MaxDebt(), shared.Capacity()), seen.last}, {}};
}

}  // namespace sluice
