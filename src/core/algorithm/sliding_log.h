// Sliding window log: at most `limit` units in every interval of the window's length, exactly. It
// keeps one entry per admitted check, so memory grows with the limit. Meant for small limits that
// must be exact, such as logins.
//
// Each entry has the sum of all units up to and including its own. The count of a window is the
// difference of two sums, and bisection finds when units leave the window.
//
// The twin of scripts/lua/algorithm/sliding_log.lua; tests/store/differential_test.cc compares the
// two. Copies of a State share one log, which only Take and Undo change. Otherwise, the functions
// are pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "core/algorithm/algorithm.h"
#include "core/share.h"
#include "core/vocabulary.h"

namespace sluice {

struct SlidingLog : CommonFacts {
  static constexpr std::string_view kName = "sliding_log";
  static constexpr Algorithm kAlgorithm{2};
  static constexpr std::int64_t kMaxLimit = 10'000;
  // If the log has this many entries, further units are added to the newest entry. This entry then
  // has the time of the added units.
  static constexpr std::size_t kMaxEntries = 10'000;
  // The maximum number of expired entries that one check removes while other units still count.
  static constexpr std::size_t kMaxCleared = 64;
  // The approximate memory of a log without entries.
  static constexpr std::size_t kEmptyLogBytes = 800;
  // The maximum number of entries that one undo changes.
  static constexpr std::int64_t kMaxShifted = 256;

  std::int64_t limit = 1;  // 1 to kMaxLimit
  Duration window{};       // at least 1 ms

  bool operator==(const SlidingLog&) const = default;

  // See core/algorithm/limit.h.
  static constexpr std::string_view kScript = "sliding_log";
  void Describe(Parameters& its) {
    its.Number("limit", limit, {.most = kMaxLimit});
    its.Length("window", window);
  }
  bool Includes(const SlidingLog& other) const {
    return window >= other.window && limit <= other.limit;
  }
  std::string Tag() const { return "sliding_log:" + FormatDuration(window); }
  std::array<std::int64_t, 2> ScriptParameters() const { return {limit, window.count()}; }
  static std::size_t ScriptWeight(const CounterDemand& demand) {
    return demand.mode == Mode::kUndo ? 64 : 8;
  }
  std::int64_t MostAtOnce() const { return limit; }

  struct Entry {
    Time at;
    std::int64_t cost;
    std::int64_t sum;  // sum of all costs so far, including this one
  };

  // Times of entries are on the counter's own clock; `offset` is its distance from the store's
  // clock. If the clock is replaced, only the offset changes.
  struct State {
    std::shared_ptr<std::deque<Entry>> log;  // oldest first
    Duration offset{};                       // the counter's time minus the store's
    Time now;                                // the counter's time
    std::int64_t counted = 0;                // units in the window that ends now
    std::int64_t before = 0;                 // sum of the units that have left the window
    std::int64_t refunded = 0;               // sum up to which units were refunded; 0: none
  };

  // The state of a new counter.
  State New(Time now) const { return {.log = std::make_shared<std::deque<Entry>>(), .now = now}; }

  // Brings `state` forward to `now`. Returns whether it was moved to a new clock.
  bool Advance(State& state, Time now) const {
    const auto& log = *state.log;
    bool moved = false;
    if (!log.empty()) {
      const Time last = log.back().at;
      moved = ClockWasReplaced(last, now + state.offset);
      if (moved) state.offset = last - now;
      state.now = std::max(now + state.offset, last);
    }
    const auto live = FirstLive(state);
    if (live == log.end()) {
      state = {.log = std::move(state.log), .now = now};
    } else {
      state.before = std::max(live->sum - live->cost, state.refunded);
      state.counted = log.back().sum - state.before;
    }
    return moved;
  }

  // How many of `n` consecutive checks are admitted.
  template <typename Counted>  // State or UsageSnapshot
  std::int64_t Grants(const Counted& state, const CounterDemand& demand, std::int64_t n) const {
    return FitWithin(limit, state.counted, demand.units, n);
  }

  // Takes `cost` units `times` times. REQUIRES: Grants returned at least `times`.
  void Take(State& state, std::int64_t cost, std::int64_t times) const {
    if (cost * times == 0) return;
    auto& log = *state.log;
    if (state.counted == 0) {
      log.clear();
      state.before = state.refunded = 0;
    }
    for (std::size_t i = 0; i < kMaxCleared && !log.empty() && !IsLive(log.front(), state); ++i) {
      log.pop_front();
    }
    Entry entry{.at = state.now, .cost = cost * times, .sum = cost * times};
    if (!log.empty()) {
      entry.sum += log.back().sum;
      if (log.back().at == state.now || log.size() >= kMaxEntries) {
        entry.cost += log.back().cost;
        log.pop_back();
      }
    }
    log.push_back(entry);
    state.counted += cost * times;
  }
  void Take(UsageSnapshot& snapshot, std::int64_t cost, std::int64_t times) const {
    snapshot.counted += cost * times;
  }

  // Takes `cost` units without testing the limit. Returns how many exceed the maximum count.
  std::int64_t Charge(State& state, std::int64_t cost) const {
    const std::int64_t sum = state.counted == 0 ? 0 : state.log->back().sum;
    const std::int64_t charged = std::clamp<std::int64_t>(kMaxProduct - sum, 0, cost);
    Take(state, charged, 1);
    return cost - charged;
  }

  // Refunds up to `cost` units of the window, oldest first. Returns whether the counter changed.
  bool Refund(State& state, std::int64_t cost, std::optional<Time> charged_at) const {
    const bool over = charged_at && *charged_at + state.offset + window <= state.now;
    if (state.counted == 0 || over) return false;
    const std::int64_t given = std::min(cost, state.counted);
    state.before += given;
    state.counted -= given;
    state.refunded = state.before;
    return true;
  }

  // Undoes a check of `cost` units that found the counter as `before`. Removes the units from the
  // check's entry. In two cases, refunds the oldest units of the window instead, although these
  // leave the window sooner. First: too many entries follow the check's entry. Second: a refund
  // that was meant for newer units has removed the oldest units of the check's entry. The newer
  // units still count in their place.
  ChangeResult Undo(State& state, std::int64_t cost, const UsageSnapshot& before) const {
    const Time at = before.reset_at - window + state.offset;
    if (state.counted == 0 || at + window <= state.now) return {.changed = false};
    if (!before.IsExact()) return {.changed = false, .dropped = cost};
    auto& log = *state.log;
    const auto entry = std::ranges::lower_bound(log, at, {}, &Entry::at);
    if (entry == log.end() || entry->at != at) return {.changed = false, .dropped = cost};
    const std::int64_t units = std::min(cost, entry->cost);
    if (log.end() - entry > kMaxShifted || state.refunded > entry->sum - entry->cost) {
      return {.changed = Refund(state, units, std::nullopt)};
    }
    entry->cost -= units;
    for (auto later = entry; later != log.end(); ++later) later->sum -= units;
    if (entry->cost == 0) log.erase(entry);
    state.counted -= units;
    return {};
  }

  // The data needed to answer coalesced checks of `cost` units each; `taken` checks are granted.
  using Snapshot = UsageSnapshot;
  Snapshot Summarize(const State& state, std::int64_t cost, std::int64_t taken, Time now) const {
    UsageSnapshot snapshot{.counted = state.counted, .reset_at = now, .retry_at = now};
    const bool takes = cost * taken > 0;
    if (takes || state.counted > 0) {
      const Time newest = takes ? state.now : state.log->back().at;
      snapshot.reset_at = newest + window - state.offset;
    }
    const std::int64_t excess = state.counted + cost * taken + cost - limit;
    if (cost <= limit && excess > 0) {
      snapshot.retry_at = TimeOfUnit(state, excess) + window - state.offset;
    }
    return snapshot;
  }

  // The verdict at `now`. REQUIRES: `snapshot` was made at `now`.
  Verdict Judge(const UsageSnapshot& snapshot, const CounterDemand& demand, bool admitted,
                Time now) const {
    return snapshot.Judge(limit, demand.units, admitted, now);
  }

  // Time from `now` until the state equals that of a new counter.
  Duration Lifetime(const State& state, Time now) const {
    if (state.log->empty()) return Duration::zero();
    return state.log->back().at + window - state.offset - now;
  }

  // The counter for `share`, derived from the last seen state of the whole limit. All units get the
  // time of the newest unit.
  State Seed(const UsageSnapshot& seen, Time at, const Share& share) const {
    State state = New(at);
    const std::int64_t count = share.TakenOf(limit, seen.counted);
    if (count > 0) state.log->push_back({seen.reset_at - window, count, count});
    state.counted = count;
    return state;
  }

  // See core/algorithm/counter.h. If a log's first entry has expired, the next check replaces that
  // entry.
  std::size_t MemoryOf(const State& state) const {
    return kEmptyLogBytes + state.log->size() * sizeof(Entry);
  }
  bool MayGrow(const State& state) const {
    return state.log->empty() || IsLive(state.log->front(), state);
  }

  // Units counted.
  std::int64_t Used(const State& state) const { return state.counted; }

 private:
  bool IsLive(const Entry& entry, const State& state) const {
    return entry.at + window > state.now;
  }

  std::deque<Entry>::const_iterator FirstLive(const State& state) const {
    return std::partition_point(state.log->begin(), state.log->end(),
                                [&](const Entry& entry) { return !IsLive(entry, state); });
  }

  // When the `nth` unit (from 1) in the window was taken. If there are fewer units, returns now.
  Time TimeOfUnit(const State& state, std::int64_t nth) const {
    const auto entry = std::ranges::lower_bound(*state.log, state.before + nth, {}, &Entry::sum);
    return entry == state.log->end() ? state.now : entry->at;
  }
};

}  // namespace sluice
