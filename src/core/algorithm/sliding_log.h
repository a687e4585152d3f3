// Sliding window log: at most `limit` units in every interval of the window's length, exactly. One
// entry per admitted check, so memory grows with the limit; meant for small limits that must hold
// to the unit, such as logins.
//
// Entries carry the running sum of all units up to them, so that what is in the window is the
// difference of two sums, and when units leave it is found by bisection, never by a walk.
//
// The twin of scripts/lua/algorithm/sliding_log.lua; tests/store/differential_test.cc holds the two
// together. Functions of their arguments; copies of a State share one log, which only Take changes.
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

struct SlidingLog {
  static constexpr Algorithm kAlgorithm = Algorithm::kSlidingLog;
  static constexpr std::int64_t kMaxLimit = 10'000;
  // Beyond, the newest entry absorbs what is admitted and takes its later time.
  static constexpr std::size_t kMaxEntries = 10'000;
  // The most entries one check clears away.
  static constexpr std::size_t kMaxCleared = 64;
  // The most newer entries that are changed to take one back.
  static constexpr std::int64_t kMaxShifted = 256;

  std::int64_t limit = 1;  // 1 to kMaxLimit
  Duration window{};       // at least 1 ms

  bool operator==(const SlidingLog&) const = default;

  // See core/limit.h.
  static constexpr std::string_view kScript = "sliding_log";
  static constexpr bool kMayRunTogether = true;
  std::string Tag() const { return "sliding_log:" + FormatDuration(window); }
  std::array<std::int64_t, 2> ScriptParameters() const { return {limit, window.count()}; }
  static std::size_t ScriptWeight(const Demand& demand) {
    return demand.mode == Mode::kUndo ? 64 : 8;
  }
  bool Supports(Mode) const { return true; }

  struct Entry {
    Time at;
    std::int64_t cost;
    std::int64_t sum;  // of all costs so far, this one included
  };

  // Times of entries are on the counter's own clock, which `offset` moves against the store's: a
  // replaced clock changes the offset and no entry.
  struct State {
    std::shared_ptr<std::deque<Entry>> log;  // oldest first
    Duration offset{};                       // the counter's time minus the store's
    Time now;                                // the counter's time
    std::int64_t counted = 0;                // units in the window that ends now
    std::int64_t before = 0;                 // sum of the units that have left it
    std::int64_t refunded = 0;               // sum up to which units were given back; 0: none
  };

  // A counter that does not exist yet.
  Keep Open(State& state, Time now) const {
    state = {.log = std::make_shared<std::deque<Entry>>(), .now = now};
    return Keep::kNo;
  }

  // Brings `state` forward to `now`.
  Keep Advance(State& state, Time now) const {
    const auto& log = *state.log;
    Keep keep = Keep::kNo;
    if (!log.empty()) {
      const Time last = log.back().at;
      if (ClockWasReplaced(last, now + state.offset)) {
        state.offset = last - now;
        keep = Keep::kAlways;
      }
      state.now = std::max(now + state.offset, last);
    }
    const auto live = FirstLive(state);
    if (live == log.end()) {
      state = {.log = std::move(state.log), .now = now};
    } else {
      state.before = std::max(live->sum - live->cost, state.refunded);
      state.counted = log.back().sum - state.before;
    }
    return keep;
  }

  // How many of `n` such checks, one after the other, are admitted.
  template <typename Counted>  // State or Tally
  std::int64_t Grants(const Counted& state, const Demand& demand, std::int64_t n) const {
    return Tally{.counted = state.counted}.Grants(limit, demand.cost, n);
  }

  // Takes `cost` units `times` times. REQUIRES: as many Grants.
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
  void Take(Tally& tally, std::int64_t cost, std::int64_t times) const {
    tally.counted += cost * times;
  }

  // Takes `cost` units, be there room or not. Returns how many are too many to be counted at all.
  std::int64_t Charge(State& state, std::int64_t cost) const {
    const std::int64_t sum = state.counted == 0 ? 0 : state.log->back().sum;
    const std::int64_t charged = std::clamp<std::int64_t>(kMaxProduct - sum, 0, cost);
    Take(state, charged, 1);
    return cost - charged;
  }

  // Gives `cost` of the units in the window back, the oldest first. Returns whether that changes
  // the counter.
  bool Refund(State& state, std::int64_t cost, std::optional<Time> charged_at) const {
    const bool over = charged_at && *charged_at + state.offset + window <= state.now;
    if (state.counted == 0 || over) return false;
    const std::int64_t given = std::min(cost, state.counted);
    state.before += given;
    state.counted -= given;
    state.refunded = state.before;
    return true;
  }

  // Takes back `cost` units of a check that met `before`: out of its entry, or, of one that too
  // many have followed, the oldest units instead, which are missing for less long.
  Changed Undo(State& state, std::int64_t cost, const Tally& before) const {
    const Time at = before.reset_at - window + state.offset;
    if (state.counted == 0 || at + window <= state.now) return {.changed = false};
    auto& log = *state.log;
    const auto entry = std::partition_point(log.begin(), log.end(),
                                            [&](const Entry& other) { return other.at < at; });
    if (entry == log.end() || entry->at != at) return {.changed = false, .dropped = cost};
    if (log.end() - entry > kMaxShifted) return {.changed = Refund(state, cost, std::nullopt)};
    const std::int64_t units = std::min(cost, entry->cost);
    // Of the entry's units the oldest may have been given back before.
    const std::int64_t held =
        entry->sum - std::clamp(state.refunded, entry->sum - entry->cost, entry->sum);
    const std::int64_t refunded = std::max<std::int64_t>(0, units - held);
    entry->cost -= units;
    for (auto later = entry; later != log.end(); ++later) later->sum -= units;
    if (entry->cost == 0) log.erase(entry);
    if (refunded > 0) {
      state.refunded -= refunded;
      state.before -= refunded;
    }
    state.counted -= units - refunded;
    return {};
  }

  // What the answers to a run of checks of `cost` units, of which `taken` will be taken, need to
  // know of a counter.
  using Snapshot = Tally;
  Snapshot Summarise(const State& state, std::int64_t cost, std::int64_t taken, Time now) const {
    Tally tally{.counted = state.counted, .reset_at = now, .retry_at = now};
    const bool takes = cost * taken > 0;
    if (takes || state.counted > 0) {
      const Time newest = takes ? state.now : state.log->back().at;
      tally.reset_at = newest + window - state.offset;
    }
    const std::int64_t excess = state.counted + cost * taken + cost - limit;
    if (cost <= limit && excess > 0) {
      tally.retry_at = TimeOfUnit(state, excess) + window - state.offset;
    }
    return tally;
  }

  // How long a granted check has to wait.
  Duration Wait(const Tally&, const Demand&, Time) const { return Duration::zero(); }

  // What a check hears at `now`. REQUIRES: `tally` was made at `now`.
  Verdict Judge(const Tally& tally, const Demand& demand, bool admitted, Time now) const {
    return tally.Judge(limit, demand.cost, admitted, now);
  }

  // Time from `now` until the state equals a fresh one's.
  Duration Lifetime(const State& state, Time now) const {
    if (state.log->empty()) return Duration::zero();
    return state.log->back().at + window - state.offset - now;
  }

  // For `share` of the limit, and its counter after one of the whole limit was seen so: all units
  // count as the newest.
  SlidingLog For(const Share& share) const {
    SlidingLog shared = *this;
    shared.limit = share.Of(limit);
    return shared;
  }
  State Seed(const SeenState& seen, const Share& share) const {
    State state;
    Open(state, seen.at);
    const std::int64_t left = std::max<std::int64_t>(0, limit - seen.used());
    const std::int64_t count = share.Of(limit) - share.Of(left);
    if (count > 0) state.log->push_back({seen.reset_at - window, count, count});
    state.counted = count;
    return state;
  }

  // Units that are counted.
  std::int64_t Used(const State& state) const { return state.counted; }

 private:
  bool IsLive(const Entry& entry, const State& state) const {
    return entry.at + window > state.now;
  }

  std::deque<Entry>::const_iterator FirstLive(const State& state) const {
    return std::partition_point(state.log->begin(), state.log->end(),
                                [&](const Entry& entry) { return !IsLive(entry, state); });
  }

  // When the `nth` unit in the window came, from 1; beyond those in it, now.
  Time TimeOfUnit(const State& state, std::int64_t nth) const {
    const auto entry = std::partition_point(
        state.log->begin(), state.log->end(),
        [&](const Entry& candidate) { return candidate.sum < state.before + nth; });
    return entry == state.log->end() ? state.now : entry->at;
  }
};

}  // namespace sluice
