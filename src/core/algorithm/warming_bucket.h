// Token bucket with warmup: after a pause it admits at a third of its rate, and reaches the full
// rate after being in use for `warmup`. A check is due as soon as all earlier checks are paid for,
// whatever its own cost. Source: SmoothWarmingUp of Guava's RateLimiter, whose comment derives the
// formulas below. As in Guava, a unit is called a permit, and its price is a time.
//
// The only algorithm in floating point, since its prices are areas under a slope; times are whole
// microseconds. The twin of scripts/lua/algorithm/warming_bucket.lua, which computes in the same
// order; tests/store/differential_test.cc compares the two. Pure functions of their arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <variant>

#include "core/algorithm/algorithm.h"
#include "core/algorithm/drip_rate.h"
#include "core/algorithm/token_bucket.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct WarmingBucket : CommonFacts {
  static constexpr std::string_view kName = TokenBucket::kName;
  static constexpr Algorithm kAlgorithm = TokenBucket::kAlgorithm;
  // The price of a permit when cold, as a multiple of the price when warm.
  static constexpr double kColdFactor = 3;
  static constexpr Duration kMaxWarmup = std::chrono::days(1);

  std::int64_t rate = 1;                      // tokens per period when warm, at least 1
  Duration period = std::chrono::seconds(1);  // at least 1 µs
  Duration warmup = std::chrono::seconds(1);  // at least 1 ms, at most kMaxWarmup

  bool operator==(const WarmingBucket&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "warming_bucket";
  // Each admitted check changes the price of the next check.
  static constexpr bool kMayCoalesce = false;
  static constexpr std::string_view kSelectedBy = "warmup";
  void Describe(Parameters& its) {
    its.Rate("rate", rate, period, DripRate::kMaxRate);
    its.Length("warmup", warmup, kMaxWarmup);
    its.Refuse("burst", "only without warmup; otherwise, rate and warmup determine the burst");
    its.Refuse("initial", "only without warmup; a bucket with warmup starts cold");
    bool borrows = true;
    its.Flag("borrow", borrows, true);
    if (!borrows) its.Refuse("borrow", "only without warmup; a bucket with warmup always borrows");
    its.Refuse("prefetch", "only without warmup");
  }
  bool Includes(const WarmingBucket& other) const { return *this == other; }
  std::string Tag() const { return "token_bucket:" + FormatDuration(period) + ":warmup"; }
  std::array<std::int64_t, 3> ScriptParameters() const {
    return {rate, period.count(), warmup.count()};
  }
  // A refund only reduces debt.
  static bool RefundsInFull() { return false; }
  std::int64_t MostAtOnce() const {
    const double units = static_cast<double>(MaxDebt().count()) / (kColdFactor * StableInterval());
    return static_cast<std::int64_t>(std::min(units, static_cast<double>(kMaxProduct)));
  }

  struct State {
    double stored = 0;  // permits stored while idle: the more, the colder
    Time next_free;     // when all earlier checks are paid for
    Time last;          // of the latest change

    bool operator==(const State&) const = default;
    static State FromFields(const std::array<double, 3>& fields) {
      return {fields[0], ToTime(fields[1]), ToTime(fields[2])};
    }
    std::array<double, 3> ToFields() const { return {stored, ToNumber(next_free), ToNumber(last)}; }
  };

  // The state of a new counter, which is cold.
  State New(Time now) const { return {MaxStored(), now, now}; }

  // Brings `state` forward to `now`. Removes permits beyond this limit's maximum, which another
  // rule with this counter may have stored. Returns whether the counter was moved to a new clock.
  bool Advance(State& state, Time now) const {
    const bool moved = ClockWasReplaced(state.last, now);
    if (moved) {
      state.next_free += now - state.last;
      state.last = now;
    }
    const Time t = std::max(now, state.last);
    const Duration idle = std::max(t - state.next_free, Duration::zero());
    state.stored = std::min(MaxStored(), state.stored + Cooled(idle));
    state.next_free += idle;
    state.last = t;
    return moved;
  }

  // Whether a check is admitted: 0 or 1. REQUIRES: n <= 1, since each admitted check changes the
  // price.
  std::int64_t Grants(const State& state, const CounterDemand& demand, std::int64_t n) const {
    const bool due = state.next_free - state.last <= LongestWait(demand);
    return due && demand.units <= MostAtOnce() ? n : 0;
  }

  // Takes `cost` units. REQUIRES: times <= 1, and Grants returned at least `times`.
  void Take(State& state, std::int64_t cost, std::int64_t times) const {
    if (times == 0) return;
    const double spent = std::min(static_cast<double>(cost), state.stored);
    const double fresh = static_cast<double>(cost) - spent;
    // Rounded up: otherwise a unit of 0.9 µs would cost nothing, and a unit of 1.9 µs only 1 µs.
    const double price = std::ceil(PriceOfStored(state.stored, spent) + fresh * StableInterval());
    state.next_free += Duration(static_cast<std::int64_t>(price));
    state.stored -= spent;
  }

  // Takes `cost` units without testing the debt. Returns how many exceed the maximum debt.
  std::int64_t Charge(State& state, std::int64_t cost) const {
    const auto room = static_cast<double>((MaxDebt() - (state.next_free - state.last)).count());
    const double units = std::max(0.0, std::floor(room / (kColdFactor * StableInterval())));
    const auto charged = std::min(cost, static_cast<std::int64_t>(units));
    Take(state, charged, 1);
    return cost - charged;
  }

  // Refunds up to `cost` units of debt. Returns whether there was any debt.
  bool Refund(State& state, std::int64_t cost, std::optional<Time>) const {
    const auto debt = static_cast<double>((state.next_free - state.last).count());
    if (debt <= 0) return false;
    const double given = std::min(debt, std::floor(static_cast<double>(cost) * StableInterval()));
    state.next_free -= Duration(static_cast<std::int64_t>(given));
    return true;
  }

  // Undoes a check of `cost` units that found the counter as `before`: restores the permits that
  // the check spent, and removes the part of its price that would still be unpaid if this check had
  // been the last. Also stores permits for the part of the price that is already paid, because that
  // time would have been idle without the check. Later checks keep the prices they paid.
  ChangeResult Undo(State& state, std::int64_t cost, const State& before) const {
    if (state.last < before.last) return {.changed = false, .dropped = cost};
    State after = before;
    Take(after, cost, 1);
    const Duration price = after.next_free - before.next_free;
    const Duration unpaid = std::clamp(after.next_free - state.last, Duration::zero(), price);
    const Duration since = std::max(state.last - after.next_free, Duration::zero());
    if (after.stored + Cooled(since) >= MaxStored()) return {.changed = false};
    const double spent = before.stored - after.stored;
    state.stored = std::min(MaxStored(), state.stored + spent + Cooled(price - unpaid));
    state.next_free = std::max(state.last, state.next_free - unpaid);
    return {};
  }

  using Snapshot = State;

  // How long an admitted check must wait. `state` is the state before the check takes its cost. A
  // check of 0 units never waits.
  Duration Wait(const State& state, const CounterDemand& demand, Time now) const {
    const bool waits = demand.units > 0 && state.next_free > state.last;
    return waits ? state.next_free - now : Duration::zero();
  }

  // The verdict at `now`. REQUIRES: `state` was advanced to `now`.
  Verdict Judge(const State& state, const CounterDemand& demand, bool admitted, Time now) const {
    const bool in_debt = state.next_free > state.last;
    Verdict verdict{.admitted = admitted,
                    .limit = std::max<std::int64_t>(1, static_cast<std::int64_t>(MaxStored())),
                    .remaining = in_debt ? 0 : static_cast<std::int64_t>(StoredIn(state)),
                    .reset_after = Lifetime(state, now)};
    if (demand.units <= MostAtOnce()) {
      verdict.retry_after = std::max(state.next_free - LongestWait(demand), state.last) - now;
    }
    return verdict;
  }

  // The permits stored, limited to their bounds, because a store may reply with any number.
  double StoredIn(const State& state) const {
    return std::max(0.0, std::min(MaxStored(), state.stored));
  }

  // Time from `now` until the state equals that of a new counter.
  Duration Lifetime(const State& state, Time now) const {
    const double cooling = std::ceil((MaxStored() - StoredIn(state)) * CooldownInterval());
    return state.next_free + Duration(static_cast<std::int64_t>(cooling)) - now;
  }

  // The limit for `share`. The share divides the rate. A bucket without debt always admits one
  // check, which cannot be divided: one server admits it, the others get a bucket without tokens.
  std::variant<WarmingBucket, TokenBucket> For(const Share& share) const {
    if (share.Of(1) == 0) return TokenBucket{.rate = rate, .period = period, .burst = 0};
    return WithRateOf(share);
  }
  // The counter for `share`, derived from the last seen state of the whole limit: it is as cold as
  // the whole limit's counter, and its debt is as long.
  std::variant<State, TokenBucket::State> Seed(const State& seen, Time at,
                                               const Share& share) const {
    if (share.Of(1) == 0) return TokenBucket::State{{.level = 0, .last = at}, {}};
    const double stored = seen.stored * (WithRateOf(share).MaxStored() / MaxStored());
    return State{stored, seen.next_free, seen.last};
  }

  // The limit whose counter adds up the taken units, as missing tokens. A WarmingBucket's counter
  // cannot add up units: it adds up their prices, which depend on how cold the bucket is.
  TokenBucket ForCharges() const {
    const std::int64_t most = TokenBucket::kMaxCapacity / period.count();
    return {.rate = rate, .period = period, .burst = std::min(MostAtOnce(), most)};
  }

  // Units of debt.
  std::int64_t Used(const State& state) const {
    const auto debt = static_cast<double>((state.next_free - state.last).count());
    return static_cast<std::int64_t>(std::ceil(std::max(0.0, debt) / StableInterval()));
  }

 private:
  WarmingBucket WithRateOf(const Share& share) const {
    WarmingBucket shared = *this;
    const DripRate drip = DripRate{rate, period}.For(share, 1);
    shared.rate = drip.rate;
    shared.period = drip.period;
    return shared;
  }

  // Time between two permits of a warm bucket, in µs.
  double StableInterval() const {
    return static_cast<double>(period.count()) / static_cast<double>(rate);
  }
  double MaxStored() const { return static_cast<double>(warmup.count()) / StableInterval(); }
  // Up to this level, stored permits cost as much as new ones.
  double Threshold() const { return 0.5 * MaxStored(); }
  // Idle time that stores one permit, in µs: an idle time of `warmup` makes a bucket cold.
  double CooldownInterval() const { return static_cast<double>(warmup.count()) / MaxStored(); }

  // Permits stored in an idle time.
  double Cooled(Duration idle) const {
    return static_cast<double>(idle.count()) / CooldownInterval();
  }

  // The price of `spent` of `stored` permits, in µs.
  double PriceOfStored(double stored, double spent) const {
    const double above = stored - Threshold();
    double price = 0;
    if (above > 0) {
      const double cold = std::min(above, spent);
      const double edges = PriceAt(above) + PriceAt(above - cold);
      price = cold * edges / 2;
      spent -= cold;
    }
    return price + StableInterval() * spent;
  }
  // The price of a permit that is `above` permits above the threshold, in µs.
  double PriceAt(double above) const {
    const double slope = (kColdFactor - 1) * StableInterval() / (MaxStored() - Threshold());
    return StableInterval() + above * slope;
  }

  // The longest debt: ten times the longest of `warmup`, one minute and the price of a cold unit.
  Duration MaxDebt() const {
    const Duration cold(static_cast<std::int64_t>(std::ceil(kColdFactor * StableInterval())));
    return 10 * std::max<Duration>({warmup, std::chrono::minutes(1), cold});
  }
  Duration LongestWait(const CounterDemand& demand) const {
    return std::min(demand.MaxWaitForTokens(), MaxDebt());
  }
};

}  // namespace sluice
