// Sliding window counter: at most `limit` units in every interval of the window's length. Units are
// counted per sub-window. All units of a sub-window stop counting together, one window's length
// after the sub-window has ended. So the limit is never exceeded, and little memory is used, but a
// check may be admitted up to one sub-window later than with a SlidingLog. Source: the bucketed
// windows of M. Datar et al., "Maintaining stream statistics over sliding windows", SIAM J.
// Computing 31(6), 2002, with buckets of equal length.
//
// The twin of scripts/lua/algorithm/sliding_window.lua; tests/store/differential_test.cc compares
// the two. Pure functions of their arguments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/algorithm/algorithm.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct SlidingWindow : CommonFacts {
  static constexpr std::string_view kName = "sliding_window";
  static constexpr Algorithm kAlgorithm{3};
  static constexpr std::int64_t kMaxSegments = 60;

  static constexpr std::int64_t kDefaultSegments = 10;

  std::int64_t limit = 1;                    // 1 to 2^52
  Duration window{};                         // at least 1 ms
  std::int64_t segments = kDefaultSegments;  // 1 to kMaxSegments

  bool operator==(const SlidingWindow&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "sliding_window";
  void Describe(Parameters& its) {
    its.Number("limit", limit, {.most = kMaxProduct});
    its.Length("window", window);
    its.Number("segments", segments, {.most = kMaxSegments}, kDefaultSegments);
  }
  // In `other`, a unit counts for up to its window plus one sub-window. For that time, this limit
  // must count it, too.
  bool Includes(const SlidingWindow& other) const {
    const bool is_same = window == other.window && segments == other.segments;
    return (is_same || window >= other.window + other.length()) && limit <= other.limit;
  }
  std::string Tag() const {
    return "sliding_window:" + FormatDuration(window) + ":" + std::to_string(segments);
  }
  std::array<std::int64_t, 3> ScriptParameters() const { return {limit, window.count(), segments}; }
  std::int64_t MostAtOnce() const { return limit; }

  struct State {
    Time start;  // of the newest sub-window
    Time last;   // of the latest change
    // Units per sub-window, newest first, without sub-windows that no longer count. The last number
    // is not 0.
    std::vector<std::int64_t> counts;

    std::int64_t counted() const {
      return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    }
  };

  // The state of a new counter. The first sub-window starts at the first check.
  State New(Time now) const { return {.start = now, .last = now}; }

  // Brings `state` forward to `now`. Returns whether it was moved to a new clock.
  bool Advance(State& state, Time now) const {
    const bool moved = ClockWasReplaced(state.last, now);
    if (moved) {
      state.start += now - state.last;
      state.last = now;
    }
    const Time t = std::max(now, state.last);
    const std::int64_t passed = (t - state.start) / length();
    Pass(state, passed);
    if (state.counts.empty()) state.start = t;
    state.last = t;
    return moved;
  }

  // How many of `n` consecutive checks are admitted.
  std::int64_t Grants(const State& state, const CounterDemand& demand, std::int64_t n) const {
    return FitWithin(limit, state.counted(), demand.units, n);
  }
  std::int64_t Grants(const UsageSnapshot& snapshot, const CounterDemand& demand,
                      std::int64_t n) const {
    return FitWithin(limit, snapshot.counted, demand.units, n);
  }

  // Takes `cost` units `times` times. REQUIRES: Grants returned at least `times`.
  void Take(State& state, std::int64_t cost, std::int64_t times) const {
    if (cost * times == 0) return;
    if (state.counts.empty()) state.counts.push_back(0);
    state.counts.front() += cost * times;
  }
  void Take(UsageSnapshot& snapshot, std::int64_t cost, std::int64_t times) const {
    snapshot.counted += cost * times;
  }

  // Takes `cost` units without testing the limit. Returns how many exceed the maximum count.
  std::int64_t Charge(State& state, std::int64_t cost) const {
    const std::int64_t charged = std::min(cost, kMaxProduct - state.counted());
    Take(state, charged, 1);
    return cost - charged;
  }

  // Refunds up to `cost` units of the window, oldest first. Returns whether the counter changed.
  bool Refund(State& state, std::int64_t cost, std::optional<Time> charged_at) const {
    if (charged_at && *charged_at < state.start - segments * length()) return false;
    if (state.counts.empty()) return false;
    while (cost > 0 && !state.counts.empty()) {
      const std::int64_t given = std::min(cost, state.counts.back());
      state.counts.back() -= given;
      cost -= given;
      TrimOldest(state);
    }
    return true;
  }

  // Undoes a check of `cost` units that found the counter as `before`, if the check's sub-window
  // still counts. If the sub-window has fewer than `cost` units, refunds that were meant for newer
  // units have removed some of the check's units. The newer units still count in their place. So
  // the oldest units of the window are refunded instead of the missing ones.
  ChangeResult Undo(State& state, std::int64_t cost, const UsageSnapshot& before) const {
    const Duration since = state.start - (before.reset_at - (segments + 1) * length());
    if (state.counts.empty() || since > segments * length()) return {.changed = false};
    const auto age = static_cast<std::size_t>(since / length());
    if (since < Duration::zero() || since % length() != Duration::zero()) {
      return {.changed = false, .dropped = cost};  // the clock was replaced
    }
    std::int64_t others = cost;
    if (age < state.counts.size()) {
      others -=
          std::exchange(state.counts[age], std::max<std::int64_t>(0, state.counts[age] - cost));
      TrimOldest(state);
    }
    if (others > 0 && before.IsExact()) Refund(state, others, std::nullopt);
    return {};
  }

  // The data needed to answer coalesced checks of `cost` units each; `taken` checks are granted.
  using Snapshot = UsageSnapshot;
  Snapshot Summarize(const State& state, std::int64_t cost, std::int64_t taken, Time now) const {
    const std::int64_t counted = state.counted();
    UsageSnapshot snapshot{.counted = counted, .reset_at = now, .retry_at = now};
    std::int64_t age = static_cast<std::int64_t>(state.counts.size());
    const std::int64_t excess = counted + cost * taken + cost - limit;
    // Goes through the sub-windows, oldest first, until their units reach `excess`. A retry can
    // succeed when the last of these sub-windows leaves the window.
    if (cost <= limit && excess > 0) {
      std::int64_t left = 0;
      while (left < excess && age > 0) left += state.counts[--age];
      snapshot.retry_at = LeavesAt(state, age);
    }
    const auto newest =
        std::ranges::find_if(state.counts, [](std::int64_t count) { return count > 0; });
    if (cost * taken > 0) {
      snapshot.reset_at = LeavesAt(state, 0);
    } else if (newest != state.counts.end()) {
      snapshot.reset_at = LeavesAt(state, newest - state.counts.begin());
    }
    return snapshot;
  }

  // The verdict at `now`. REQUIRES: `snapshot` was made at `now`.
  Verdict Judge(const UsageSnapshot& snapshot, const CounterDemand& demand, bool admitted,
                Time now) const {
    return snapshot.Judge(limit, demand.units, admitted, now);
  }

  // Time from `now` until the state equals that of a new counter.
  Duration Lifetime(const State& state, Time now) const { return LeavesAt(state, 0) - now; }

  // The counter for `share`, derived from the last seen state of the whole limit. All units get the
  // time of the newest unit.
  State Seed(const UsageSnapshot& seen, Time at, const Share& share) const {
    const std::int64_t count = share.TakenOf(limit, seen.counted);
    if (count == 0) return New(at);
    const Time start = seen.reset_at - (segments + 1) * length();
    return {.start = start, .last = at, .counts = {count}};
  }

  // See core/algorithm/counter.h. Returns about the most memory that a state takes: every
  // sub-window has units.
  std::size_t MemoryOf(const State&) const {
    return static_cast<std::size_t>(segments + 1) * sizeof(std::int64_t);
  }

  // Units counted.
  std::int64_t Used(const State& state) const { return state.counted(); }

 private:
  // The length of a sub-window, rounded up so that `segments` of them cover the window.
  Duration length() const { return Duration(CeilDiv(window.count(), segments)); }

  // When a sub-window leaves the window. The newest sub-window has `age` 0, the one before has 1.
  Time LeavesAt(const State& state, std::int64_t age) const {
    return state.start + (segments + 1 - age) * length();
  }

  // Starts `passed` new sub-windows.
  void Pass(State& state, std::int64_t passed) const {
    if (passed <= 0) return;
    if (passed > segments) {
      state.counts.clear();
    } else {
      state.counts.insert(state.counts.begin(), static_cast<std::size_t>(passed), 0);
      const auto most = static_cast<std::size_t>(segments + 1);
      if (state.counts.size() > most) state.counts.resize(most);
    }
    TrimOldest(state);
    state.start += passed * length();
  }

  static void TrimOldest(State& state) {
    while (!state.counts.empty() && state.counts.back() == 0) state.counts.pop_back();
  }
};

}  // namespace sluice
