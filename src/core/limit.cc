#include "core/limit.h"

#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

std::int64_t ScaledUp(std::int64_t value, double share) {
  const auto scaled = static_cast<std::int64_t>(std::ceil(static_cast<double>(value) * share));
  return std::clamp<std::int64_t>(scaled, 1, value);
}

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

struct Scale {
  double share;

  Limit operator()(FixedWindow limit) const {
    limit.limit = ScaledUp(limit.limit, share);
    return limit;
  }
  Limit operator()(SlidingLog limit) const {
    limit.limit = ScaledUp(limit.limit, share);
    return limit;
  }
  Limit operator()(SlidingWindow limit) const {
    limit.limit = ScaledUp(limit.limit, share);
    return limit;
  }
  Limit operator()(TokenBucket limit) const {
    limit.rate = ScaledUp(limit.rate, share);
    limit.burst = ScaledUp(limit.burst, share);
    return limit;
  }
  Limit operator()(WarmingBucket limit) const {
    limit.rate = ScaledUp(limit.rate, share);
    return limit;
  }
  Limit operator()(LeakyBucket limit) const {
    limit.rate = ScaledUp(limit.rate, share);
    limit.queue = ScaledUp(limit.queue + 1, share) - 1;
    return limit;
  }
  Limit operator()(Concurrency limit) const {
    limit.limit = ScaledUp(limit.limit, share);
    return limit;
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

Limit Scaled(const Limit& limit, double share) { return std::visit(Scale{share}, limit); }

}  // namespace sluice
