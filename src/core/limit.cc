#include "core/limit.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

struct TagOf {
  std::string operator()(const FixedWindow& limit) const {
    switch (limit.align) {
      case FixedWindow::Align::kFirst:
        return fmt::format("fixed_window:{}", FormatDuration(limit.window));
      case FixedWindow::Align::kClock:
        return fmt::format("fixed_window:{}:clock{}", FormatDuration(limit.window),
                           FormatUtcOffset(limit.utc_offset));
      case FixedWindow::Align::kMonth:
        return fmt::format("fixed_window:month{}", FormatUtcOffset(limit.utc_offset));
    }
    return "";
  }
  std::string operator()(const SlidingLog& limit) const {
    return fmt::format("sliding_log:{}", FormatDuration(limit.window));
  }
  std::string operator()(const SlidingWindow& limit) const {
    return fmt::format("sliding_window:{}:{}", FormatDuration(limit.window), limit.segments);
  }
  std::string operator()(const TokenBucket& limit) const {
    return fmt::format("token_bucket:{}", FormatDuration(limit.period));
  }
  std::string operator()(const WarmingBucket& limit) const {
    return fmt::format("token_bucket:{}:warmup", FormatDuration(limit.period));
  }
  std::string operator()(const LeakyBucket& limit) const {
    return fmt::format("leaky_bucket:{}", FormatDuration(limit.period));
  }
  std::string operator()(const Concurrency&) const { return "concurrency"; }
};

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

std::string CounterTag(const Limit& limit) { return std::visit(TagOf{}, limit); }

bool Supports(const Limit& limit, Mode mode) {
  if (mode != Mode::kCharge && mode != Mode::kRefund) return true;
  if (std::holds_alternative<Concurrency>(limit)) return false;
  const auto* const leaky = std::get_if<LeakyBucket>(&limit);
  return leaky == nullptr || !leaky->delays || mode == Mode::kCharge;
}

bool MayRunTogether(const Limit& limit) {
  return !std::holds_alternative<Concurrency>(limit) &&
         !std::holds_alternative<WarmingBucket>(limit);
}

std::string FormatDuration(Duration duration) {
  using namespace std::chrono;
  constexpr std::array<std::pair<Duration, std::string_view>, 6> kUnits{{
      {days(1), "d"},
      {hours(1), "h"},
      {minutes(1), "m"},
      {seconds(1), "s"},
      {milliseconds(1), "ms"},
      {microseconds(1), "us"},
  }};
  if (duration == Duration::zero()) return "0s";
  for (const auto& [unit, name] : kUnits) {
    if (duration % unit == Duration::zero()) return fmt::format("{}{}", duration / unit, name);
  }
  return "";
}

std::string FormatUtcOffset(Duration offset) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(offset).count();
  return fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', std::abs(minutes) / 60,
                     std::abs(minutes) % 60);
}

Limit LimitFor(const Limit& limit, const Share& share) { return std::visit(ShareOf{share}, limit); }

}  // namespace sluice
