// Detects that a rule's `on_store_failure` decides more than kShare of the rule's checks. This
// happens if the rule asks Redis for more than Redis answers in time.
//
// Thread-safe. A decision by fallback costs one read of an atomic; others cost nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"

namespace sluice {

class FallbackWatch {
 public:
  // Decisions of the rule so far.
  struct Decisions {
    std::uint64_t all = 0;
    std::uint64_t by_fallback = 0;
  };

  static constexpr std::chrono::seconds kWindow{10};
  static constexpr std::chrono::seconds kQuiet{60};  // after a report
  static constexpr double kShare = 0.01;

  // Called after each decision by fallback. Returns their share of all decisions, 0 to 1, if it has
  // been above kShare for kWindow and was not reported during the last kQuiet.
  std::optional<double> Note(SteadyTime now, const std::function<Decisions()>& count);

 private:
  static constexpr SteadyTime kInUse = SteadyTime::max();

  // When the window ends; kInUse while a thread uses the members below.
  std::atomic<SteadyTime> next_{SteadyTime::min()};
  SteadyTime begin_ = SteadyTime::min();
  Decisions before_;
};

}  // namespace sluice
