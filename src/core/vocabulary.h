// The enumerations of the API, with the numbers of proto/sluice/v1/rate_limiter.proto, for layers
// that do not use protobuf.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

enum class Mode : std::uint8_t {
  kConsume = 1,
  kPeek = 2,
  kCharge = 3,
  kRefund = 4,
  // kRenew and kSettle change a lease that a check has taken. Callers' checks cannot have them.
  kRenew = 5,
  kSettle = 6,
  // Not for callers' checks: undoes an earlier check, as if that check had not happened.
  kUndo = 7,
  // Not for callers' checks: reads a lease.
  kInspect = 8,
};

enum class Decision : std::uint8_t { kAllowed = 1, kDenied = 2 };

enum class Source : std::uint8_t {
  kStore = 1,
  kDenyCache = 2,
  kFallback = 3,
  kRule = 4,
  kNoRule = 5,
  kGrant = 6,  // with units that this server has prefetched
};

// Each algorithm declares its own number.
enum class Algorithm : std::uint8_t {};

// The largest cost of a check, and the most units that a check takes from one counter. Doubles
// (Lua's numbers) hold every integer up to this.
inline constexpr std::int64_t kMaxCost = std::int64_t{1} << 53;

// No product and no count of an algorithm may exceed this; rules that could exceed it are refused
// when loaded. The sum of two such numbers is exact in doubles.
inline constexpr std::int64_t kMaxProduct = std::int64_t{1} << 52;

// As written in output: "allowed", "store", …
inline std::string_view ToString(Decision decision) {
  return decision == Decision::kAllowed ? "allowed" : "denied";
}
inline std::string_view ToString(Source source) {
  constexpr std::array<std::string_view, 6> kNames{"store", "deny_cache", "fallback",
                                                   "rule",  "no_rule",    "grant"};
  return kNames.at(static_cast<std::size_t>(source) - 1);
}

}  // namespace sluice
