#include "tools/text.h"

#include <cstdint>

#include <fmt/format.h>

namespace sluice::tools {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

// `duration` rounded up to three digits, without trailing zeros. REQUIRES: `duration` is less than
// 1,000 times `unit`.
std::string Decimal(Duration duration, Duration unit, std::string_view name) {
  const int scale = duration >= 100 * unit ? 1 : duration >= 10 * unit ? 10 : 100;
  const std::int64_t scaled = CeilDiv(duration.count() * scale, unit.count());
  return fmt::format("{:g} {}", static_cast<double>(scaled) / scale, name);
}

// `duration` in whole `large` and `small` units.
std::string TwoUnits(Duration duration, Duration large, std::string_view large_name, Duration small,
                     std::string_view small_name) {
  const std::int64_t smalls = CeilDiv(duration.count(), small.count());
  const std::int64_t per_large = large / small;
  if (smalls % per_large == 0) return fmt::format("{} {}", smalls / per_large, large_name);
  return fmt::format("{} {} {} {}", smalls / per_large, large_name, smalls % per_large, small_name);
}

}  // namespace

std::string HumanDuration(Duration duration) {
  if (duration < milliseconds(1)) return fmt::format("{} us", duration.count());
  // Above each bound, rounding up could reach the next unit.
  if (duration <= milliseconds(999)) return Decimal(duration, milliseconds(1), "ms");
  if (duration <= seconds(59)) return Decimal(duration, seconds(1), "s");
  if (duration <= minutes(59)) return TwoUnits(duration, minutes(1), "min", seconds(1), "s");
  if (duration <= hours(23)) return TwoUnits(duration, hours(1), "h", minutes(1), "min");
  return TwoUnits(duration, hours(24), "d", hours(1), "h");
}

}  // namespace sluice::tools
