#include "rpc/http2/loop_balancer.h"

#include <numeric>
#include <utility>

namespace sluice::rpc::http2 {
namespace {

constexpr double kHalfBusy = 512;

// The busiest connection whose move leaves the other loop with less load than this loop has now.
std::optional<std::size_t> BusiestThatHelps(const LoopLoads& loads,
                                            std::span<const std::uint64_t> calls) {
  const auto total = static_cast<double>(std::accumulate(calls.begin(), calls.end(), 0ULL));
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const double brings = loads.own * static_cast<double>(calls[i]) / total;
    if (calls[i] == 0 || loads.least_of_others + brings >= loads.own) continue;
    if (!found || calls[i] > calls[*found]) found = i;
  }
  return found;
}

}  // namespace

std::optional<std::size_t> LoopBalancer::ConnectionToMove(SteadyTime now, const LoopLoads& loads,
                                                          std::span<const std::uint64_t> calls) {
  const bool late = now - std::exchange(last_, now) > 2 * kInterval;  // the loop was idle
  const bool overloaded = loads.own >= kHalfBusy && loads.own >= 2 * loads.mean_of_others;
  if (!overloaded || late) overloaded_since_.reset();
  if (!overloaded) return std::nullopt;
  if (!overloaded_since_) overloaded_since_ = now;
  if (now - *overloaded_since_ < kOverloadDuration) return std::nullopt;
  overloaded_since_ = now;
  return BusiestThatHelps(loads, calls);
}

}  // namespace sluice::rpc::http2
