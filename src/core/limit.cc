#include "core/limit.h"

namespace sluice {
namespace {

struct ShareOf {
  const Share& share;

  template <typename Algorithm>
  Limit operator()(const Algorithm& limit) const {
    return limit.For(share);
  }
  Limit operator()(const WarmingBucket& limit) const {
    if (share.Of(1) == 1) return limit.For(share);
    return TokenBucket{.rate = limit.rate, .period = limit.period, .burst = 0};
  }
};

}  // namespace

Algorithm AlgorithmOf(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kAlgorithm; }, limit);
}

std::string CounterTag(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.Tag(); }, limit);
}

bool Supports(const Limit& limit, Mode mode) {
  return std::visit([&](const auto& algorithm) { return algorithm.Supports(mode); }, limit);
}

std::int64_t MostAtOnce(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.MostAtOnce(); }, limit);
}

bool MayCoalesce(const Limit& limit) {
  return std::visit([](const auto& algorithm) { return algorithm.kMayCoalesce; }, limit);
}

Limit LimitFor(const Limit& limit, const Share& share) { return std::visit(ShareOf{share}, limit); }

}  // namespace sluice
