#include "replay/timeline.h"

#include <array>

namespace sluice::replay {
namespace {

// When the intervals get longer for the i-th time (from 0), kFactors[i] intervals are merged into
// one; after the last factor, always 2. So the lengths are 1 s, 2 s, 10 s, 30 s, 1 min, 5 min,
// 10 min, 30 min, 1 h, 2 h, 6 h, 12 h, 1 d, 2 d, 4 d, ….
constexpr std::array<std::int64_t, 12> kFactors = {2, 5, 3, 2, 5, 2, 3, 2, 2, 3, 2, 2};

}  // namespace

void Timeline::MoveTo(std::chrono::sys_seconds second) {
  const auto interval = [&] { return second.time_since_epoch() / length_; };
  if (first_ < 0) first_ = interval();
  while (interval() - first_ >= static_cast<std::int64_t>(kMostIntervals)) Lengthen();
  current_ = static_cast<std::size_t>(interval() - first_);
}

void Timeline::Lengthen() {
  const std::int64_t factor = longer_ < kFactors.size() ? kFactors[longer_] : 2;
  ++longer_;
  for (std::vector<Tally>& tallies : series_) {
    std::vector<Tally> merged;
    for (std::size_t i = 0; i < tallies.size(); ++i) {
      const std::int64_t interval = (first_ + static_cast<std::int64_t>(i)) / factor;
      merged.resize(static_cast<std::size_t>(interval - first_ / factor) + 1);
      merged.back().checked += tallies[i].checked;
      merged.back().denied += tallies[i].denied;
    }
    tallies = std::move(merged);
  }
  first_ /= factor;
  length_ *= factor;
}

}  // namespace sluice::replay
