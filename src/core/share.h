// One server's share of a limit while the shared store is unavailable.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice {

// The fraction parts/of. Units are rounded down. The servers with the lowest ranks get one of the
// remaining units each, so if `parts` is 1, the shares of ranks 0 to `of` - 1 add up to the whole.
struct Share {
  std::int64_t parts = 1;  // 0 to `of`
  std::int64_t of = 1;     // 1 to kMaxOf
  std::int64_t rank = 0;   // if it is `of` or more, the server gets none of the remaining units

  static constexpr std::int64_t kMaxOf = 1000;

  static constexpr Share Whole() { return {}; }
  static constexpr Share Nothing() { return {.parts = 0}; }
  // The share of one of `servers` servers; Nothing() if there are more than kMaxOf.
  static Share OfServer(std::int64_t servers, std::int64_t rank) {
    if (servers > kMaxOf) return Nothing();
    return {.parts = 1, .of = std::max<std::int64_t>(servers, 1), .rank = rank};
  }
  // A fixed fraction from 0 to 1, rounded down to thousandths.
  static Share OfNumber(double fraction) {
    constexpr double kRounding = 1e-9;
    const auto parts = static_cast<std::int64_t>(fraction * kMaxOf + kRounding);
    return parts >= kMaxOf ? Whole() : Share{.parts = parts, .of = kMaxOf, .rank = kMaxOf};
  }

  bool whole() const { return parts == of; }

  // REQUIRES: 0 <= units <= kMaxCost
  std::int64_t Of(std::int64_t units) const {
    const std::int64_t product = units * parts;
    return product / of + (rank < product % of ? 1 : 0);
  }

  // How many units of the share Of(limit) are used if `taken` units of the whole limit are used.
  // Of(limit - taken) of the share are left. If the counter also has a larger limit, `taken` may
  // exceed `limit`. Then the result exceeds Of(limit), so that the share of the larger limit is
  // right, too. REQUIRES: both are from 0 to kMaxCost
  std::int64_t TakenOf(std::int64_t limit, std::int64_t taken) const {
    const std::int64_t left = limit - taken;
    return Of(limit) - (left >= 0 ? Of(left) : -Of(-left));
  }

  bool operator==(const Share&) const = default;
};

}  // namespace sluice
