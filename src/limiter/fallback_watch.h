// Detects that a rule's `on_store_failure` decides more than kShare of the rule's checks. This
// happens in an outage, or if the rule gets more checks than Redis can answer in time.
//
// Thread-safe. A decision by fallback reads one atomic; at the end of a window, it also counts all
// decisions. Other decisions cost nothing.
#pragma once

#include <atomic>
#include <cstdint>
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

  // Called after each decision by fallback. If a window ends, and more than kShare of its decisions
  // were by fallback, returns their share, 0 to 1. After that, no window begins for kQuiet.
  template <typename Count>  // returns Decisions
  std::optional<double> Note(SteadyTime now, const Count& count) {
    SteadyTime next = next_.load(std::memory_order_relaxed);
    if (now < next || !next_.compare_exchange_strong(next, kInUse, std::memory_order_acquire)) {
      return std::nullopt;
    }
    const Decisions decisions = count();
    std::optional<double> share;
    // The first call after a window's end judges the window. If this call comes late, fallback has
    // not decided for a while, and the window's share is outdated.
    if (begin_ != SteadyTime::min() && now < begin_ + 2 * kWindow) {
      const auto all = static_cast<double>(decisions.all - before_.all);
      share = static_cast<double>(decisions.by_fallback - before_.by_fallback) / all;
      if (*share <= kShare) share.reset();
    }
    begin_ = share ? SteadyTime::min() : now;
    before_ = decisions;
    next_.store(now + (share ? kQuiet : kWindow), std::memory_order_release);
    return share;
  }

 private:
  static constexpr SteadyTime kInUse = SteadyTime::max();

  // When the window ends or, after a report, when kQuiet has passed. kInUse while a thread uses the
  // members below.
  std::atomic<SteadyTime> next_{SteadyTime::min()};
  SteadyTime begin_ = SteadyTime::min();
  Decisions before_;
};

}  // namespace sluice
