// Shared by all algorithms: the results of a check and the handling of a clock that runs behind a
// counter.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "core/algorithm/parameters.h"
#include "core/demand.h"
#include "core/format.h"
#include "core/vocabulary.h"

namespace sluice {

// The largest clock skew that a counter tolerates. If the counter's state is newer than the clock,
// but not by more than kMaxSkew, time stands still for the counter. If the state is newer by more
// than kMaxSkew, the clock was replaced (a failover to a machine whose clock differs), and the
// counter moves to the new clock once.
inline constexpr Duration kMaxSkew = std::chrono::seconds(1);

inline bool ClockWasReplaced(Time last, Time now) { return now < last - kMaxSkew; }

// Whether the state must be stored even if no admitted check has changed it.
enum class WriteBack {
  kNo,
  kUnlessPeek,  // because the counter is new, but not if the check is a peek
  kAlways,      // because the counter was moved to a new clock
};

// The result of a change: kCharge, kRefund, kRenew, kSettle, kUndo.
struct ChangeResult {
  bool changed = true;
  // Units that could not be charged. For kUndo: units that stay charged because their effect on the
  // counter is no longer known. For kSettle of slots: by how much the limit in force has risen.
  std::int64_t dropped = 0;
};

// The result of one limit for one request. Durations start at the time of the decision.
struct Verdict {
  bool admitted = false;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  Duration reset_after{};
  Duration retry_after = kNever;  // undefined if admitted
  Duration wait{};                // if admitted: how long to wait before starting
  std::int64_t dropped = 0;       // of the ChangeResult

  static constexpr Duration kNever = Duration::max();

  bool operator==(const Verdict&) const = default;
};

// Facts that hold for most algorithms. An algorithm declares only the facts in which it differs.
// The functions of the same names in limit.h and counter.h describe them.
struct CommonFacts {
  static constexpr bool kMayCoalesce = true;
  static constexpr bool kMayCoalesceCharges = false;
  static constexpr bool kTakesLeases = false;
  static constexpr bool kSettlesAsStored = false;
  // The key whose presence in a rule file selects the algorithm. Empty: kName is enough.
  static constexpr std::string_view kSelectedBy = "";

  static bool Supports(Mode) { return true; }
  static bool RefundsInFull() { return true; }
  static Duration GrantLife() { return Duration::zero(); }
  // Whether a new counter is stored even if no admitted check has changed it.
  static WriteBack KeepsNew() { return WriteBack::kNo; }
  static bool DenialLasts(Mode mode) { return mode != Mode::kCharge; }
  // The cost of a check in the script, relative to a check of a counter stored as a string.
  static std::size_t ScriptWeight(const CounterDemand&) { return 1; }
  // The memory that a state takes on the heap.
  template <typename State>
  static std::size_t MemoryOf(const State&) {
    return 0;
  }
  template <typename State>
  static bool MayGrow(const State&) {
    return false;
  }
  // How long an admitted check must wait. `snapshot` is taken before the check takes its cost.
  template <typename Snapshot>
  static Duration Wait(const Snapshot&, const CounterDemand&, Time) {
    return Duration::zero();
  }
  // The data needed to answer coalesced checks of `cost` units each; the first `taken` checks are
  // granted. By default, the whole state is needed.
  template <typename State>
  static State Summarize(const State& state, std::int64_t /*cost*/, std::int64_t /*taken*/, Time) {
    return state;
  }

  bool operator==(const CommonFacts&) const = default;
};

// Conversions of numbers in a script's reply and arguments. The numbers are integers.
inline Time ToTime(double microseconds) {
  return Time(Duration(static_cast<std::int64_t>(microseconds)));
}
inline double ToNumber(Time time) { return static_cast<double>(time.time_since_epoch().count()); }
inline double ToNumber(std::int64_t count) { return static_cast<double>(count); }

// How many of `n` consecutive checks of `cost` units each fit within `limit`, if `counted` units
// are in use before the first check.
inline std::int64_t FitWithin(std::int64_t limit, std::int64_t counted, std::int64_t cost,
                              std::int64_t n) {
  if (counted > limit) return 0;
  return cost == 0 ? n : std::min(n, (limit - counted) / cost);
}

// Snapshot of a counter in which each unit counts for a limited time, such as the length of a
// window.
struct UsageSnapshot {
  std::int64_t counted = 0;  // units
  Time reset_at;             // when the last unit stops counting; undefined if no unit counts
  Time retry_at;             // when the check after the granted ones would be admitted

  // Whether `reset_at` says exactly when units were taken. False in results of HeldOfCharged.
  bool IsExact() const { return retry_at > Time(); }

  bool operator==(const UsageSnapshot&) const = default;
  static UsageSnapshot FromFields(const std::array<double, 3>& fields) {
    return {static_cast<std::int64_t>(fields[0]), ToTime(fields[1]), ToTime(fields[2])};
  }
  std::array<double, 3> ToFields() const {
    return {ToNumber(counted), ToNumber(reset_at), ToNumber(retry_at)};
  }

  // The verdict for a check of `cost` units at `now`.
  Verdict Judge(std::int64_t limit, std::int64_t cost, bool admitted, Time now) const {
    Verdict verdict{.admitted = admitted,
                    .limit = limit,
                    .remaining = std::max<std::int64_t>(0, limit - counted)};
    if (counted > 0) verdict.reset_after = reset_at - now;
    if (!admitted && cost <= limit) verdict.retry_after = retry_at - now;
    return verdict;
  }
};

// Snapshot of a concurrency counter. Its numbers have 32 bits, so that it is not larger than the
// snapshots of other algorithms.
struct SlotsSnapshot {
  std::int32_t counted = 0;  // slots
  std::int32_t limit = 0;    // in force
  Time reset_at;             // when the first lease expires; undefined if no slot is held
  Time retry_at;             // as in a UsageSnapshot

  bool operator==(const SlotsSnapshot&) const = default;

  UsageSnapshot usage() const { return {counted, reset_at, retry_at}; }

  // The first field holds both the count and the limit.
  static constexpr std::int64_t kLimitUnit = std::int64_t{1} << 32;
  static SlotsSnapshot FromFields(const std::array<double, 3>& fields) {
    const auto both = static_cast<std::int64_t>(fields[0]);
    return {static_cast<std::int32_t>(both % kLimitUnit),
            static_cast<std::int32_t>(both / kLimitUnit), ToTime(fields[1]), ToTime(fields[2])};
  }
  std::array<double, 3> ToFields() const {
    return {ToNumber(limit * kLimitUnit + counted), ToNumber(reset_at), ToNumber(retry_at)};
  }
};

// Rounds up; REQUIRES: numerator >= 0, denominator > 0.
inline std::int64_t CeilDiv(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0);
}

// Rounds toward minus infinity, as Lua's math.floor does; REQUIRES: denominator > 0.
inline std::int64_t FloorDiv(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator - (numerator % denominator < 0);
}

}  // namespace sluice
