// Token bucket: tokens are added at `rate` per `period` up to `burst`; a check takes `cost` of them
// or is denied. At most burst + rate·t units pass in every interval of length t. Source: J. Turner,
// "New directions in communications", IEEE Communications 24(10), 1986, in the form of RFC 2697's
// committed bucket.
//
// A check that may wait takes future tokens, and starts when they have been added. With `borrows` a
// check is due as soon as all debt is paid, whatever its own cost. The next check waits until that
// cost is paid. Source: SmoothBursty of Guava's RateLimiter.
//
// Levels are integers: one token is a level of `period` (in µs), so nothing is rounded. The twin of
// scripts/lua/algorithm/token_bucket.lua; tests/store/differential_test.cc compares the two. Pure
// functions of their arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/algorithm/algorithm.h"
#include "core/algorithm/drip_rate.h"
#include "core/algorithm/grant.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct TokenBucket : CommonFacts {
  static constexpr std::string_view kName = "token_bucket";
  static constexpr Algorithm kAlgorithm{4};
  // The maximum of burst · period, with the period in µs.
  static constexpr std::int64_t kMaxCapacity = DripRate::kMaxCapacity;
  static constexpr std::int64_t kMaxRate = DripRate::kMaxRate;

  std::int64_t rate = 1;                      // tokens per period, 1 to kMaxRate
  Duration period = std::chrono::seconds(1);  // at least 1 µs
  std::int64_t burst = 1;                     // tokens the bucket holds, at least 1
  bool starts_empty = false;
  bool borrows = false;
  Duration prefetch{};  // the longest life of a grant; zero: servers take none

  // The default of `burst`: the tokens of one second, at least 1.
  static std::int64_t DefaultBurst(std::int64_t rate, Duration period) {
    return std::max<std::int64_t>(1, rate / (period / std::chrono::seconds(1)));
  }

  // How far the level may fall below zero: ten times the capacity, or the tokens of ten minutes,
  // whichever is more, but at most kMaxProduct.
  static std::int64_t MaxDebt(std::int64_t rate, std::int64_t capacity) {
    const std::int64_t minute = rate * Duration(std::chrono::minutes(1)).count();
    return std::min(kMaxProduct, 10 * std::max(capacity, minute));
  }

  bool operator==(const TokenBucket&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "token_bucket";
  static constexpr bool kSettlesAsStored = true;
  void Describe(Parameters& its);
  // If charges could bring `other` into more debt than this limit, `other` would stay in debt
  // longer.
  bool Includes(const TokenBucket& other) const {
    return burst <= other.burst && borrows == other.borrows && starts_empty == other.starts_empty &&
           DripRate{rate, period}.IsAtMost({other.rate, other.period}) &&
           DripRate{other.MaxDebt(), other.period}.IsAtMost({MaxDebt(), period});
  }
  std::string Tag() const { return "token_bucket:" + FormatDuration(period); }
  std::array<std::int64_t, 5> ScriptParameters() const {
    return {rate, period.count(), burst, starts_empty ? 1 : 0, borrows ? 1 : 0};
  }
  // A peek at a bucket that starts empty may have found no bucket. Then the next check of another
  // mode must reach the store, so that the bucket begins to fill.
  bool DenialLasts(Mode mode) const {
    return mode == Mode::kConsume || (mode == Mode::kPeek && !starts_empty);
  }
  std::int64_t MostAtOnce() const { return borrows ? MaxDebt() / period.count() : burst; }
  Duration GrantLife() const { return std::min(prefetch, Duration(Capacity() / rate / 4)); }

  struct Snapshot {
    std::int64_t level = 0;  // tokens times period; below zero: debt
    Time last;               // time of the level
    std::int64_t out = 0;    // tokens of grants

    bool operator==(const Snapshot&) const = default;
    static Snapshot FromFields(const std::array<double, 3>& fields) {
      return {static_cast<std::int64_t>(fields[0]), ToTime(fields[1]),
              static_cast<std::int64_t>(fields[2])};
    }
    std::array<double, 3> ToFields() const {
      return {ToNumber(level), ToNumber(last), ToNumber(out)};
    }
  };
  struct State : Snapshot {
    GrantsOut grants;  // Summarize sets `out`

    bool operator==(const State&) const = default;
  };

  // The state of a new counter. A bucket that starts empty fills from its first check on (peeks do
  // not count), so that check is stored even if it is denied.
  State New(Time now) const { return {{starts_empty ? 0 : Capacity(), now}, {}}; }
  WriteBack KeepsNew() const { return starts_empty ? WriteBack::kUnlessPeek : WriteBack::kNo; }

  // Brings `state` forward to `now`. Returns whether it was moved to a new clock.
  bool Advance(State& state, Time now) const {
    const bool moved = ClockWasReplaced(state.last, now);
    if (moved) {
      state.grants.Move(now - state.last);
      state.last = now;
    }
    while (state.grants.any() && state.grants.older_ends <= now) {
      Refill(state, state.grants.older_ends);
      state.grants.EndOlder();
    }
    Refill(state, std::max(now, state.last));
    return moved;
  }

  // How many of `n` consecutive checks are admitted.
  std::int64_t Grants(const Snapshot& state, const CounterDemand& demand, std::int64_t n) const {
    const std::int64_t credit = state.level + Advanced(demand);
    if (credit < 0 || demand.units > MostAtOnce()) return 0;
    if (demand.units == 0) return n;
    const std::int64_t amount = demand.units * period.count();
    const std::int64_t due = credit / amount + (borrows ? 1 : 0);
    const std::int64_t room = std::max<std::int64_t>(0, state.level + MaxDebt()) / amount;
    return std::min({n, due, room});
  }

  // Takes `cost` units `times` times. REQUIRES: Grants returned at least `times`.
  void Take(Snapshot& state, std::int64_t cost, std::int64_t times) const {
    state.level -= cost * times * period.count();
  }

  // Takes `cost` units without testing the level. Returns how many exceed the maximum debt.
  std::int64_t Charge(State& state, std::int64_t cost) const {
    const std::int64_t room = std::max<std::int64_t>(0, state.level + MaxDebt());
    const std::int64_t charged = std::min(cost, room / period.count());
    Take(state, charged, 1);
    return cost - charged;
  }

  // Refunds up to `cost` units, as far as the bucket has room. Returns whether the bucket changed.
  bool Refund(State& state, std::int64_t cost, std::optional<Time>) const {
    const std::int64_t room = Capacity() - state.level;
    if (room <= 0) return false;
    state.level += cost > room / period.count() ? room : cost * period.count();
    state.level = std::min(state.level, Room(state));
    return true;
  }

  // Undoes a check of `cost` units that found the counter as `before`: adds those of its tokens
  // that would still be missing if this check had been the last.
  ChangeResult Undo(State& state, std::int64_t cost, const Snapshot& before) const;
  // By how much an undo raises the level of a bucket with enough room. Empty: unknown.
  std::optional<std::int64_t> Unused(const State& state, std::int64_t cost,
                                     const Snapshot& before) const;

  // The state to store after a settlement has changed the level by `more`. `found` is `stored`,
  // advanced by this limit, which may no longer be in force. So the state keeps the stored time:
  // the next check adds the tokens since that time at the rate of its own limit. A charge moves the
  // time forward in two cases. First: since that time, the bucket was sometimes full. A full bucket
  // gains no tokens, so the charge must not be paid with tokens of the times when it was full.
  // Second: otherwise the debt would be too large.
  State Settled(const State& stored, const State& found, std::int64_t more) const;

  // The units from which a server may take a grant.
  std::int64_t Grantable(const State& state) const { return state.level / period.count(); }
  // Returns `wish`, because a bucket does not limit the life of grants.
  GrantWish Limited(const GrantWish& wish, const State&) const { return wish; }

  static Snapshot Summarize(const State& state, std::int64_t, std::int64_t, Time) {
    return {state.level, state.last, state.grants.units()};
  }

  // How long an admitted check must wait. `state` is the state before the check takes its cost. A
  // check of 0 units never waits.
  Duration Wait(const Snapshot& state, const CounterDemand& demand, Time now) const {
    if (demand.units == 0) return Duration::zero();
    const Duration wait = TimeToReach(Due(demand), state);
    return wait > Duration::zero() ? wait + (state.last - now) : wait;
  }

  // The verdict at `now`. REQUIRES: `state` was advanced to `now`.
  Verdict Judge(const Snapshot& state, const CounterDemand& demand, bool admitted, Time now) const;

  // Time from `now` until the state equals that of a new counter. A bucket that starts empty never
  // returns to that state, so it is kept for at least an hour, and for at least ten times its fill
  // time. If it is then deleted, it loses few tokens compared with those gained in that time.
  Duration Lifetime(const State& state, Time now) const {
    Duration full = TimeToReach(Capacity(), state) + (state.last - now);
    if (state.grants.any()) full += kMaxPrefetch;
    if (!starts_empty) return full;
    const Duration fill(CeilDiv(Capacity(), rate));
    return std::max<Duration>({std::chrono::hours(1), 10 * fill, full});
  }

  // The limit for `share`. The share divides the burst and the rate. Borrowing cannot be divided:
  // one server may borrow, the others may not.
  TokenBucket For(const Share& share) const {
    if (share.whole()) return *this;
    TokenBucket shared = *this;
    const DripRate drip = DripRate{rate, period}.For(share, share.Of(burst));
    shared.rate = drip.rate;
    shared.period = drip.period;
    shared.burst = std::min(share.Of(burst), kMaxCapacity / drip.period.count());
    shared.borrows = borrows && share.Of(1) == 1;
    return shared;
  }
  // The counter for `share`, derived from the last seen state of the whole limit.
  State Seed(const Snapshot& seen, Time, const Share& share) const;

  // The limit whose counter adds up the tokens taken. The counter starts full, so that the missing
  // tokens are the tokens taken.
  TokenBucket ForCharges() const {
    TokenBucket full = *this;
    full.starts_empty = false;
    return full;
  }

  // Changes this limit, from ForCharges, to the rate of `other`. As many tokens are missing as
  // before.
  void ChangeRate(State& state, const TokenBucket& other) {
    // With the same period, parts of a token are kept, too.
    const std::int64_t lacks =
        period == other.period ? Capacity() - state.level : Used(state) * other.period.count();
    rate = other.rate;
    period = other.period;
    burst = std::min(std::max(burst, other.burst), kMaxCapacity / period.count());
    state.level = std::max(Capacity() - lacks, -MaxDebt());
  }

  // Tokens that are missing, debt included.
  std::int64_t Used(const State& state) const {
    return CeilDiv(std::max<std::int64_t>(0, Capacity() - state.level), period.count());
  }

 private:
  std::int64_t Capacity() const { return burst * period.count(); }
  std::int64_t MaxDebt() const { return MaxDebt(rate, Capacity()); }

  // The level up to which the bucket refills: the capacity minus the units that are out, because
  // these may still be used.
  std::int64_t Room(const State& state) const {
    return std::max<std::int64_t>(0, Capacity() - state.grants.units() * period.count());
  }

  void Refill(State& state, Time until) const {
    const Duration elapsed = until - state.last;
    const bool is_full = elapsed >= TimeToReach(Room(state), state);
    state.level = is_full ? Room(state) : state.level + elapsed.count() * rate;
    state.last = until;
  }

  // The level at which a check is due. REQUIRES: demand.units <= MostAtOnce()
  std::int64_t Due(const CounterDemand& demand) const {
    return borrows ? 0 : demand.units * period.count();
  }

  // The level added during the longest wait, at most MaxDebt().
  std::int64_t Advanced(const CounterDemand& demand) const {
    const std::int64_t wait = demand.MaxWaitForTokens().count();
    return wait >= CeilDiv(MaxDebt(), rate) ? MaxDebt() : wait * rate;
  }

  // The time until the bucket reaches `level`; zero if it is already that high.
  Duration TimeToReach(std::int64_t level, const Snapshot& state) const {
    return Duration(level <= state.level ? 0 : CeilDiv(level - state.level, rate));
  }
};

}  // namespace sluice
