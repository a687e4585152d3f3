// Token bucket: tokens drip in at `rate` per `period` up to `burst`; a check takes `cost` of them
// or is denied. In every interval of length t at most burst + rate·t units pass. Source: J. Turner,
// "New directions in communications", IEEE Communications 24(10), 1986, in the form of RFC 2697's
// committed bucket.
//
// Levels are integers in units of 1/period (in µs) of a token, so nothing is ever rounded.
// The twin of scripts/lua/token_bucket.lua; tests/differential holds the two together.
// Pure functions of their arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/algorithm/algorithm.h"
#include "core/vocabulary.h"

namespace sluice {

struct TokenBucket {
  static constexpr Algorithm kAlgorithm = Algorithm::kTokenBucket;

  std::int64_t rate = 1;   // tokens per period, at least 1
  Duration period{};       // at least 1 µs; period · burst and period + rate stay below 2^52
  std::int64_t burst = 1;  // tokens the bucket holds, at least 1
  bool starts_empty = false;

  // What `burst` is if nobody says: one second's worth, at least 1.
  static std::int64_t DefaultBurst(std::int64_t rate, Duration period) {
    return std::max<std::int64_t>(1, rate / (period / std::chrono::seconds(1)));
  }

  bool operator==(const TokenBucket&) const = default;

  struct State {
    std::int64_t level = 0;  // in 1/period of a token
    Time last;               // when the level was that

    bool operator==(const State&) const = default;
    static State FromFields(const std::array<std::int64_t, 3>& fields) {
      return {fields[0], Time(Duration(fields[1]))};
    }
  };

  // Makes `state` that of a counter that does not exist yet. One that starts empty fills from its
  // first check on, so that check is remembered even if denied.
  Keep Open(State& state, Time now) const {
    state = {starts_empty ? 0 : Capacity(), now};
    return starts_empty ? Keep::kUnlessPeek : Keep::kNo;
  }

  // Brings `state` forward to `now`.
  Keep Advance(State& state, Time now) const {
    Keep keep = Keep::kNo;
    if (ClockWasReplaced(state.last, now)) {
      state.last = now;
      keep = Keep::kAlways;
    }
    const Time t = std::max(now, state.last);
    const Duration elapsed = t - state.last;
    if (elapsed >= TimeToReach(Capacity(), state)) {
      state.level = Capacity();
    } else {
      state.level += elapsed.count() * rate;
    }
    state.last = t;
    return keep;
  }

  // How many of `n` checks of `cost` units, one after the other, are admitted.
  std::int64_t Grants(const State& state, std::int64_t cost, std::int64_t n) const {
    if (state.level < 0 || cost > burst) return 0;
    if (cost == 0) return n;
    return std::min(n, state.level / (cost * period.count()));
  }

  // Takes `cost` units `times` times. REQUIRES: as many Grants.
  void Take(State& state, std::int64_t cost, std::int64_t times) const {
    state.level -= cost * times * period.count();
  }

  // What the answers to a run of equal checks need to know of a counter: all of it.
  using Snapshot = State;
  Snapshot Summarise(const State& state, std::int64_t, std::int64_t, Time) const { return state; }

  // What a check of `cost` units hears at `now`. REQUIRES: `state` was advanced to `now`.
  Verdict Judge(const State& state, std::int64_t cost, bool admitted, Time now) const {
    const Duration ahead = state.last - now;  // the skew that was waited out
    Verdict verdict{.admitted = admitted,
                    .limit = burst,
                    .remaining = std::max<std::int64_t>(0, state.level / period.count()),
                    .reset_after = TimeToReach(Capacity(), state) + ahead};
    if (cost <= burst) {
      verdict.retry_after = TimeToReach(cost * period.count(), state) + ahead;
    }
    return verdict;
  }

  // Time from `now` until the state equals a fresh one's. A bucket that starts empty never does by
  // itself: it is kept until forgetting it costs its owner little.
  Duration Lifetime(const State& state, Time now) const {
    if (starts_empty) {
      const Duration fill(CeilDiv(Capacity(), rate));
      return std::max<Duration>(std::chrono::hours(1), 10 * fill);
    }
    return TimeToReach(Capacity(), state) + (state.last - now);
  }

 private:
  std::int64_t Capacity() const { return burst * period.count(); }

  // Zero if the level is there already.
  Duration TimeToReach(std::int64_t level, const State& state) const {
    return Duration(level <= state.level ? 0 : CeilDiv(level - state.level, rate));
  }
};

}  // namespace sluice
