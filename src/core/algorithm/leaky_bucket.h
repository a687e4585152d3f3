// Leaky bucket as a queue: units drain evenly at `rate` per `period`. If many units arrive
// together, one is served and `queue` more are queued; further checks are denied. With `delays`
// each queued check waits for its turn, so that starts are evenly spaced. Without `delays`, queued
// checks start at once. Source: J. Turner, "New directions in communications", IEEE Communications
// 24(10), 1986, as in nginx' limit_req (its burst is `queue`, its nodelay is `delays` = false).
//
// Levels are integers: one unit is a level of `period` (in µs), so nothing is rounded. The twin of
// scripts/lua/algorithm/leaky_bucket.lua; tests/store/differential_test.cc compares the two. Pure
// functions of their arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/algorithm/algorithm.h"
#include "core/algorithm/drip_rate.h"
#include "core/algorithm/token_bucket.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct LeakyBucket : CommonFacts {
  static constexpr std::string_view kName = "leaky_bucket";
  static constexpr Algorithm kAlgorithm{5};

  std::int64_t rate = 1;                      // units per period, 1 to DripRate::kMaxRate
  Duration period = std::chrono::seconds(1);  // at least 1 µs
  std::int64_t queue = 0;  // units that may wait; (queue + 1) · period is at most kMaxCapacity
  bool delays = true;

  bool operator==(const LeakyBucket&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "leaky_bucket";
  static constexpr bool kSettlesAsStored = true;
  void Describe(Parameters& its) {
    its.Rate("rate", rate, period, DripRate::kMaxRate);
    its.Number("queue", queue, DripRate{rate, period}.SizeRange(0, 1));
    its.Flag("delay", delays, true);
  }
  // If charges could bring `other` into more debt than this limit, `other` would stay in debt
  // longer. With `delays`, a check's `max_wait` also compares the whole levels, which charges could
  // raise further in a longer queue.
  bool Includes(const LeakyBucket& other) const {
    const auto debt = [](const LeakyBucket& it) {
      return DripRate{TokenBucket::MaxDebt(it.rate, it.Capacity()), it.period};
    };
    return (delays ? queue == other.queue : queue <= other.queue) && delays == other.delays &&
           DripRate{rate, period}.IsAtMost({other.rate, other.period}) &&
           debt(other).IsAtMost(debt(*this));
  }
  std::string Tag() const { return "leaky_bucket:" + FormatDuration(period); }
  std::array<std::int64_t, 4> ScriptParameters() const {
    return {rate, period.count(), queue, delays ? 1 : 0};
  }
  // A check that waits in the queue cannot be refunded.
  bool Supports(Mode mode) const { return !delays || mode != Mode::kRefund; }
  bool RefundsInFull() const { return !delays; }
  std::int64_t MostAtOnce() const { return queue + 1; }

  struct State {
    std::int64_t level = 0;  // units that have not drained yet, times period
    Time last;               // time of the level

    bool operator==(const State&) const = default;
    static State FromFields(const std::array<double, 3>& fields) {
      return {static_cast<std::int64_t>(fields[0]), ToTime(fields[1])};
    }
    std::array<double, 3> ToFields() const { return {ToNumber(level), ToNumber(last), 0}; }
  };

  // The state of a new counter.
  State New(Time now) const { return {0, now}; }

  // Brings `state` forward to `now`. Returns whether it was moved to a new clock.
  bool Advance(State& state, Time now) const {
    const bool moved = ClockWasReplaced(state.last, now);
    if (moved) state.last = now;
    const Time t = std::max(now, state.last);
    const Duration elapsed = t - state.last;
    const bool is_empty = elapsed >= TimeToFall(0, state);
    state.level = is_empty ? 0 : state.level - elapsed.count() * rate;
    state.last = t;
    return moved;
  }

  // How many of `n` consecutive checks are admitted.
  std::int64_t Grants(const State& state, const CounterDemand& demand, std::int64_t n) const {
    const std::int64_t longest = LongestQueue(demand);
    if (state.level > longest || demand.units > queue + 1) return 0;
    if (demand.units == 0) return n;
    const std::int64_t amount = demand.units * period.count();
    const std::int64_t in_time = (longest - state.level) / amount + 1;
    return std::min({n, in_time, (Capacity() - state.level) / amount});
  }

  // Takes `cost` units `times` times. REQUIRES: Grants returned at least `times`.
  void Take(State& state, std::int64_t cost, std::int64_t times) const {
    state.level += cost * times * period.count();
  }

  // Takes `cost` units without testing the queue. Returns how many exceed the maximum debt, which
  // is the same as for a TokenBucket.
  std::int64_t Charge(State& state, std::int64_t cost) const {
    const std::int64_t room = Capacity() + TokenBucket::MaxDebt(rate, Capacity()) - state.level;
    const std::int64_t charged = std::min(cost, std::max<std::int64_t>(0, room) / period.count());
    Take(state, charged, 1);
    return cost - charged;
  }

  // Refunds up to `cost` units that have not drained. Returns whether the bucket changed. REQUIRES:
  // !delays, since a place in a queue cannot be given back.
  bool Refund(State& state, std::int64_t cost, std::optional<Time>) const {
    if (state.level == 0) return false;
    state.level -= cost > state.level / period.count() ? state.level : cost * period.count();
    return true;
  }

  // Undoes a check of `cost` units that found the counter as `before`: removes those units that
  // would not have drained yet if this check had been the last. With `delays`, undoes a check only
  // if no other check followed. If others followed, their callers have already been told their
  // waits. After an undo, the next check would start at the same time as the last of these checks.
  ChangeResult Undo(State& state, std::int64_t cost, const State& before) const {
    const auto more = Unused(state, cost, before);
    if (more == 0) return {.changed = false};
    const bool is_last = more && state.level == LeftOf(cost, before, state.last);
    if (!more || (delays && !is_last)) return {.changed = false, .dropped = cost};
    state.level = std::max<std::int64_t>(0, state.level + *more);
    return {};
  }
  // By how much an undo changes the level: 0 or negative. The level does not fall below 0. Empty:
  // unknown.
  std::optional<std::int64_t> Unused(const State& state, std::int64_t cost,
                                     const State& before) const {
    if (state.last < before.last) return std::nullopt;
    return -std::min(LeftOf(cost, before, state.last), cost * period.count());
  }

  // See TokenBucket::Settled. Here, the next check drains the bucket at the rate of its own limit.
  State Settled(const State& stored, const State& found, std::int64_t more) const {
    if (more < 0) {
      return {std::max<std::int64_t>(0, stored.level + more), std::min(stored.last, found.last)};
    }
    const std::int64_t most = Capacity() + TokenBucket::MaxDebt(rate, Capacity());
    const std::int64_t room = std::max(stored.level, most) - found.level - more;
    const Duration time(CeilDiv(std::min(stored.level - found.level, room), rate));
    return {found.level + more + time.count() * rate, found.last - time};
  }

  using Snapshot = State;

  // How long an admitted check must wait. `state` is the state before the check takes its cost. A
  // check of 0 units never waits.
  Duration Wait(const State& state, const CounterDemand& demand, Time now) const {
    if (!delays || state.level == 0 || demand.units == 0) return Duration::zero();
    return TimeToFall(0, state) + (state.last - now);
  }

  // The verdict at `now`. REQUIRES: `state` was advanced to `now`.
  Verdict Judge(const State& state, const CounterDemand& demand, bool admitted, Time now) const {
    const Duration ahead = state.last - now;  // clock skew, which must pass first
    const std::int64_t free = std::max<std::int64_t>(0, Capacity() - state.level);
    Verdict verdict{.admitted = admitted,
                    .limit = queue + 1,
                    .remaining = free / period.count(),
                    .reset_after = TimeToFall(0, state) + ahead};
    if (demand.units <= queue + 1) {
      const std::int64_t room = Capacity() - demand.units * period.count();
      verdict.retry_after = TimeToFall(std::min(room, LongestQueue(demand)), state) + ahead;
    }
    return verdict;
  }

  // Time from `now` until the state equals that of a new counter.
  Duration Lifetime(const State& state, Time now) const {
    return TimeToFall(0, state) + (state.last - now);
  }

  // The limit for `share`. The share divides `queue` + 1 and the rate.
  LeakyBucket For(const Share& share) const {
    if (share.whole()) return *this;
    LeakyBucket shared = *this;
    const std::int64_t places = share.Of(queue + 1);
    const DripRate drip = DripRate{rate, period}.For(share, places);
    shared.rate = drip.rate;
    shared.period = drip.period;
    shared.queue = std::min(places, TokenBucket::kMaxCapacity / drip.period.count()) - 1;
    return shared;
  }
  // The counter for `share`, derived from the last seen state of the whole limit.
  State Seed(const State& seen, Time, const Share& share) const {
    const LeakyBucket shared = For(share);
    const std::int64_t free =
        DripRate{shared.rate, shared.period}.ShareOf(Capacity() - seen.level, period, share);
    return {std::max<std::int64_t>(0, shared.Capacity() - free), seen.last};
  }

  // As TokenBucket's function.
  void ChangeRate(State& state, const LeakyBucket& other) {
    if (period != other.period) state.level = Used(state) * other.period.count();
    rate = other.rate;
    period = other.period;
    queue = std::min(std::max(queue, other.queue), TokenBucket::kMaxCapacity / period.count() - 1);
  }

  // Units that have not drained.
  std::int64_t Used(const State& state) const { return CeilDiv(state.level, period.count()); }

 private:
  std::int64_t Capacity() const { return (queue + 1) * period.count(); }

  // The level at `now` if a check of `cost` units found the state `before`, and no check followed.
  std::int64_t LeftOf(std::int64_t cost, const State& before, Time now) const {
    const std::int64_t after = before.level + cost * period.count();
    const Duration elapsed = now - before.last;
    return elapsed.count() >= CeilDiv(after, rate) ? 0 : after - elapsed.count() * rate;
  }

  // The highest level at which a check does not wait longer than its max_wait.
  std::int64_t LongestQueue(const CounterDemand& demand) const {
    if (!delays || !demand.max_wait || demand.units == 0) return Capacity();
    const bool beyond = demand.max_wait->count() >= CeilDiv(Capacity(), rate);
    return beyond ? Capacity() : demand.max_wait->count() * rate;
  }

  // The time until the bucket falls to `level`; zero if it is already that low.
  Duration TimeToFall(std::int64_t level, const State& state) const {
    return Duration(level >= state.level ? 0 : CeilDiv(state.level - level, rate));
  }
};

}  // namespace sluice
