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
      fmt::format("a burst of {} is less than the tokens that this rate adds in 10 ms ({}), so "
                  "requests that arrive together may be denied although they are within the rate",
                  burst, refill));
}

std::optional<std::int64_t> TokenBucket::Unused(const State& state, std::int64_t cost,
                                                const Snapshot& before) const {
  const std::int64_t found = before.level + before.out * period.count();
  const std::int64_t missing = Capacity() - (found - cost * period.count());
  const Duration elapsed = state.last - before.last;
  if (elapsed < Duration::zero()) return std::nullopt;
  if (missing <= 0 || elapsed.count() >= CeilDiv(missing, rate)) return 0;
  return std::min(missing - elapsed.count() * rate, cost * period.count());
}

ChangeResult TokenBucket::Undo(State& state, std::int64_t cost, const Snapshot& before) const {
  const auto more = Unused(state, cost, before);
  if (!more) return {.changed = false, .dropped = cost};
  if (*more == 0) return {.changed = false};
  state.level = std::min(Room(state), state.level + *more);
  return {};
}

TokenBucket::State TokenBucket::Settled(const State& stored, const State& found,
                                        std::int64_t more) const {
  State settled = stored;
  if (found.last < stored.last) {  // the clock was replaced
    settled.grants.Move(found.last - stored.last);
    settled.last = found.last;
  }
  const bool is_of_another = stored.level > found.level;  // more than this limit allows
  if (is_of_another || more > 0) {
    const std::int64_t most = is_of_another ? kMaxCapacity : std::max(stored.level, Room(stored));
    settled.level = std::min(stored.level + more, most);
    return settled;
  }
  const std::int64_t lowest = std::min(stored.level, -MaxDebt());
  const std::int64_t refilled = found.level - stored.level;
  const Duration time(CeilDiv(std::min(refilled, found.level + more - lowest), rate));
  settled.level = found.level + more - time.count() * rate;
  settled.last = found.last - time;
  while (settled.grants.any() && settled.grants.older_ends <= settled.last) {
    settled.grants.EndOlder();
  }
  return settled;
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
