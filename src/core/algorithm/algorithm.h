// What all algorithms share: what a check asks of a counter, how a counter meets a clock that is
// behind it, and what it answers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "core/demand.h"
#include "core/format.h"

namespace sluice {

// A counter whose state is newer than the clock by at most this has met the skew between two
// clocks: time stands still for it. By more, the clock has been replaced (a failover to a machine
// whose clock differs), and the counter is moved to the new clock once.
inline constexpr Duration kMaxSkew = std::chrono::seconds(1);

inline bool ClockWasReplaced(Time last, Time now) { return now < last - kMaxSkew; }

// Whether a state that no grant has changed must be stored all the same.
enum class Keep {
  kNo,
  kUnlessPeek,  // the counter begins to exist with this check
  kAlways,      // the counter was moved to a new clock
};

// What became of a change: kCharge, kRefund, kRenew, kRelease, kUndo.
struct Changed {
  bool changed = true;
  // Units that could not be charged; for kUndo, units that stay charged, for it is not known any
  // more what they did to the counter.
  std::int64_t dropped = 0;
};

// What one limit says to one request. Durations count from the time of the decision.
struct Verdict {
  bool admitted = false;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  Duration reset_after{};
  Duration retry_after = kNever;  // meaningful unless admitted
  Duration wait{};                // admitted, but start only after this long
  std::int64_t dropped = 0;       // Mode::kCharge: units the counter could not take any more

  static constexpr Duration kNever = Duration::max();

  bool operator==(const Verdict&) const = default;
};

// What a counter answers from that counts units until they leave it.
struct Tally {
  std::int64_t counted = 0;  // units
  Time reset_at;             // when the last of them leaves; any time if there are none
  Time retry_at;             // when the check after the granted ones is admitted

  bool operator==(const Tally&) const = default;
  static Tally FromFields(const std::array<double, 3>& fields);
  std::array<double, 3> ToFields() const;

  // How many of `n` checks of `cost` units, one after the other, find room within `limit`.
  std::int64_t Grants(std::int64_t limit, std::int64_t cost, std::int64_t n) const {
    if (counted > limit) return 0;
    if (cost == 0) return n;
    return std::min(n, (limit - counted) / cost);
  }

  // What a check of `cost` units hears at `now`.
  Verdict Judge(std::int64_t limit, std::int64_t cost, bool admitted, Time now) const {
    Verdict verdict{.admitted = admitted,
                    .limit = limit,
                    .remaining = std::max<std::int64_t>(0, limit - counted)};
    if (counted > 0) verdict.reset_after = reset_at - now;
    if (!admitted && cost <= limit) verdict.retry_after = retry_at - now;
    return verdict;
  }
};

// Numbers of a script's reply and arguments; they hold integers.
inline Time ToTime(double microseconds) {
  return Time(Duration(static_cast<std::int64_t>(microseconds)));
}
inline double ToNumber(Time time) { return static_cast<double>(time.time_since_epoch().count()); }
inline double ToNumber(std::int64_t count) { return static_cast<double>(count); }

inline Tally Tally::FromFields(const std::array<double, 3>& fields) {
  return {static_cast<std::int64_t>(fields[0]), ToTime(fields[1]), ToTime(fields[2])};
}

inline std::array<double, 3> Tally::ToFields() const {
  return {ToNumber(counted), ToNumber(reset_at), ToNumber(retry_at)};
}

// Rounds up; REQUIRES: numerator >= 0, denominator > 0.
inline std::int64_t CeilDiv(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0);
}

// Rounds towards minus infinity, as Lua's math.floor does; REQUIRES: denominator > 0.
inline std::int64_t FloorDiv(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator - (numerator % denominator < 0);
}

}  // namespace sluice
