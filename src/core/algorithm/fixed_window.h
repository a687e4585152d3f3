// Fixed window counter: at most `limit` units in each window. Across the boundary of two windows,
// up to twice the limit can pass within one window's length. SlidingLog and SlidingWindow avoid
// that.
//
// The twin of scripts/lua/algorithm/fixed_window.lua; tests/store/differential_test.cc compares the
// two. Pure functions of their arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/algorithm/algorithm.h"
#include "core/algorithm/grant.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct FixedWindow : CommonFacts {
  static constexpr std::string_view kName = "fixed_window";
  static constexpr Algorithm kAlgorithm{1};

  enum class Align : std::uint8_t {
    kFirst = 0,  // a window opens at the first request after the previous window ended
    kClock = 1,  // consecutive windows since the epoch; 7-day windows start on Mondays
    kMonth = 2,  // calendar months
    kEpoch = 3,  // like kClock, without offset; 7-day windows start on Thursdays, as the epoch does
  };

  std::int64_t limit = 1;  // 1 to 2^52
  Duration window{};       // at least 1 ms; 0 with kMonth
  Align align = Align::kFirst;
  Duration utc_offset{};  // local time minus UTC; shifts the boundaries of kClock and kMonth
  Duration prefetch{};    // the longest life of a grant; zero: servers take none

  bool operator==(const FixedWindow&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "fixed_window";
  static constexpr bool kMayCoalesceCharges = true;
  void Describe(Parameters& its) {
    its.Number("limit", limit, {.most = kMaxProduct});
    bool is_month = align == Align::kMonth;
    its.LengthOrMonth("window", window, is_month);
    Align aligned = is_month ? Align::kClock : align;
    its.Choice("align", aligned, is_month ? Align::kClock : Align::kFirst,
               {{"first", Align::kFirst}, {"clock", Align::kClock}, {"epoch", Align::kEpoch}});
    if (is_month && aligned != Align::kClock) {
      its.Refuse("align", "only without window: month");
    }
    align = is_month ? Align::kMonth : aligned;
    its.UtcOffset("utc_offset", utc_offset);
    if (align == Align::kFirst || align == Align::kEpoch) {
      its.Refuse("utc_offset", "only with align: clock or window: month");
    }
    its.LengthIfAny("prefetch", prefetch, kMinPrefetch, kMaxPrefetch);
  }
  // With other windows, a window of `other` might still contain a large charge when the window of
  // this limit has ended.
  bool Includes(const FixedWindow& other) const {
    return window == other.window && align == other.align && utc_offset == other.utc_offset &&
           limit <= other.limit;
  }
  std::string Tag() const {
    if (align == Align::kMonth) return "fixed_window:month" + FormatUtcOffset(utc_offset);
    std::string tag = "fixed_window:" + FormatDuration(window);
    if (align == Align::kClock) tag += ":clock" + FormatUtcOffset(utc_offset);
    if (align == Align::kEpoch) tag += ":epoch";
    return tag;
  }
  std::array<std::int64_t, 4> ScriptParameters() const {
    return {limit, window.count(), static_cast<std::int64_t>(align), utc_offset.count()};
  }
  static bool DenialLasts(Mode) { return true; }
  std::int64_t MostAtOnce() const { return limit; }
  Duration GrantLife() const { return prefetch; }

  // The count can exceed the limit (CHARGE, or the limit was lowered).
  struct Snapshot {
    Time start;              // of the window
    std::int64_t count = 0;  // units taken in the window, including those of grants
    Time last;               // of the latest change

    bool operator==(const Snapshot&) const = default;
    static Snapshot FromFields(const std::array<double, 3>& fields) {
      return {ToTime(fields[0]), static_cast<std::int64_t>(fields[1]), ToTime(fields[2])};
    }
    std::array<double, 3> ToFields() const {
      return {ToNumber(start), ToNumber(count), ToNumber(last)};
    }
  };
  struct State : Snapshot {
    GrantsOut grants;

    bool operator==(const State&) const = default;
  };

  // The state of a new counter.
  State New(Time now) const { return {{WindowStart(now), 0, now}, {}}; }

  // Brings `state` forward to `now`. Returns whether it was moved to a new clock.
  bool Advance(State& state, Time now) const {
    const bool moved = ClockWasReplaced(state.last, now);
    if (moved) {
      state.start = align == Align::kFirst ? state.start + (now - state.last) : WindowStart(now);
      state.grants.Move(now - state.last);
      state.last = now;
    }
    const Time t = std::max(now, state.last);
    while (state.grants.any() && state.grants.older_ends <= t) state.grants.EndOlder();
    if (t >= WindowEnd(state.start)) state = New(t);
    state.last = t;
    return moved;
  }

  // How many of `n` consecutive checks are admitted.
  std::int64_t Grants(const Snapshot& state, const CounterDemand& demand, std::int64_t n) const {
    return FitWithin(limit, state.count, demand.units, n);
  }

  // Takes `cost` units `times` times. REQUIRES: Grants returned at least `times`.
  void Take(Snapshot& state, std::int64_t cost, std::int64_t times) const {
    state.count += cost * times;
  }

  // Takes `cost` units without testing the limit. Returns how many exceed the maximum count.
  std::int64_t Charge(Snapshot& state, std::int64_t cost) const {
    const std::int64_t charged = std::min(cost, kMaxProduct - state.count);
    state.count += charged;
    return cost - charged;
  }

  // Charges `cost` units `times` times, and once more. Returns what Charge returns for the last
  // charge.
  std::int64_t ChargeRepeatedly(Snapshot& state, std::int64_t cost, std::int64_t times) const {
    const bool fills = cost > 0 && times > (kMaxProduct - state.count) / cost;
    state.count = fills ? kMaxProduct : state.count + cost * times;
    return Charge(state, cost);
  }

  // Refunds up to `cost` units of this window. Units under grants are not refunded. Returns whether
  // the count may have changed.
  bool Refund(State& state, std::int64_t cost, std::optional<Time> charged_at) const {
    if (state.count == 0 || charged_at.value_or(state.start) < state.start) return false;
    state.count = std::max(state.grants.units(), state.count - std::min(cost, state.count));
    return true;
  }

  // Undoes a check of `cost` units that found the counter as `before`, if the check's window is
  // still open.
  ChangeResult Undo(State& state, std::int64_t cost, const Snapshot& before) const {
    if (state.start < before.start) return {.changed = false, .dropped = cost};
    return {.changed = state.start == before.start && Refund(state, cost, std::nullopt)};
  }

  // The units from which a server may take a grant.
  std::int64_t Grantable(const State& state) const { return limit - state.count; }
  // Returns `wish` with a life that ends no later than the window.
  GrantWish Limited(const GrantWish& wish, const State& state) const {
    return {wish.units, std::min(wish.life, WindowEnd(state.start) - state.last)};
  }

  static Snapshot Summarize(const State& state, std::int64_t, std::int64_t, Time) { return state; }

  // The verdict at `now`. REQUIRES: `state` was advanced to `now`.
  Verdict Judge(const Snapshot& state, const CounterDemand& demand, bool admitted, Time now) const {
    const bool unopened = align == Align::kFirst && state.count == 0;
    const Duration end = WindowEnd(state.start) - now;
    return {.admitted = admitted,
            .limit = limit,
            .remaining = std::max<std::int64_t>(0, limit - state.count),
            .reset_after = unopened ? Duration::zero() : end,
            .retry_after = demand.units > limit ? Verdict::kNever : end};
  }

  // Time from `now` until the state equals that of a new counter.
  Duration Lifetime(const State& state, Time now) const { return WindowEnd(state.start) - now; }

  // The counter for `share`, derived from the last seen state of the whole limit.
  State Seed(const Snapshot& seen, Time, const Share& share) const {
    return {{seen.start, share.TakenOf(limit, seen.count), seen.last}, {}};
  }

  // The last seen window, without its units.
  State Uncharged(const Snapshot& seen) const { return {{seen.start, 0, seen.last}, {}}; }

  // Units counted.
  std::int64_t Used(const State& state) const { return state.count; }

  // The start of the window that contains `t`. With kFirst, a window opens at `t`.
  Time WindowStart(Time t) const {
    using std::chrono::days;
    if (align == Align::kFirst) return t;
    if (align == Align::kMonth) return MonthStart(t, 0);
    Duration anchor{};
    // 1970-01-05, the fifth day of the epoch, was a Monday.
    if (align == Align::kClock) anchor = (window == days(7) ? days(4) : days(0)) - utc_offset;
    const auto since = t.time_since_epoch() - anchor;
    return Time(anchor + FloorDiv(since.count(), window.count()) * window);
  }
  // The end of the window that starts at `start`.
  Time WindowEnd(Time start) const {
    return align == Align::kMonth ? MonthStart(start, 1) : start + window;
  }

 private:
  // The start of the month that is `later` months after the month of `t`.
  Time MonthStart(Time t, int later) const {
    using namespace std::chrono;
    const year_month_day date(floor<days>(t + utc_offset));
    return sys_days((date.year() / date.month() + months(later)) / 1) - utc_offset;
  }
};

}  // namespace sluice
