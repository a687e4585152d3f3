#include "core/format.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice {

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

std::string FormatPeriod(Duration period) { return "/" + FormatDuration(period).substr(1); }

std::string FormatUtcOffset(Duration offset) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(offset).count();
  return fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', std::abs(minutes) / 60,
                     std::abs(minutes) % 60);
}

}  // namespace sluice
