#include "limiter/fallback_watch.h"

namespace sluice {

std::optional<double> FallbackWatch::Note(SteadyTime now, const std::function<Decisions()>& count) {
  SteadyTime next = next_.load(std::memory_order_relaxed);
  if (now < next) return std::nullopt;
  if (!next_.compare_exchange_strong(next, kInUse, std::memory_order_acquire)) return std::nullopt;
  const Decisions decisions = count();
  std::optional<double> share;
  // If a window ended long ago, no decision by fallback has followed it. So its share says nothing
  // about the present.
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

}  // namespace sluice
