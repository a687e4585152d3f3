// Counts over time, in at most a few hundred intervals of equal length. The longer the time that
// the log spans, the longer the intervals.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace sluice::replay {

struct Tally {
  std::uint64_t checked = 0;
  std::uint64_t denied = 0;

  void Add(bool is_denied) {
    ++checked;
    denied += is_denied ? 1 : 0;
  }
  double share() const {
    return checked == 0 ? 0 : static_cast<double>(denied) / static_cast<double>(checked);
  }
};

class Timeline {
 public:
  static constexpr std::size_t kMostIntervals = 240;

  explicit Timeline(std::size_t series) : series_(series) {}

  // Sets the current second. It must not be earlier than the previous one.
  void MoveTo(std::chrono::sys_seconds second);

  // The counts of a series in the interval of the current second.
  Tally& Now(std::size_t series) {
    std::vector<Tally>& tallies = series_[series];
    if (current_ >= tallies.size()) tallies.resize(current_ + 1);
    return tallies[current_];
  }

  // The counts of a series by interval. The last intervals may be missing if they have no counts.
  const std::vector<Tally>& Of(std::size_t series) const { return series_[series]; }

  // The number of intervals.
  std::size_t size() const { return first_ < 0 ? 0 : current_ + 1; }
  std::chrono::sys_seconds StartOf(std::size_t interval) const {
    return std::chrono::sys_seconds(length_ * (first_ + static_cast<std::int64_t>(interval)));
  }
  std::chrono::seconds length() const { return length_; }

 private:
  void Lengthen();

  std::vector<std::vector<Tally>> series_;
  std::chrono::seconds length_{1};
  std::size_t longer_ = 0;   // how often the intervals were lengthened
  std::int64_t first_ = -1;  // the first interval, as a multiple of length_ since 1970; -1: none
  std::size_t current_ = 0;
};

}  // namespace sluice::replay
