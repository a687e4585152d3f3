// The enumerations of the API, with the numbers of proto/sluice/v1/rate_limiter.proto, for the
// layers that know no protobuf.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

enum class Mode : std::uint8_t {
  kConsume = 1,
  kPeek = 2,
  kCharge = 3,
  kRefund = 4,
  // Not of a check: what becomes of a lease that one has taken.
  kRenew = 5,
  kRelease = 6,
  // Not of a check: takes back what an earlier one was granted, as if it had not come.
  kUndo = 7,
};

enum class Decision : std::uint8_t { kAllowed = 1, kDenied = 2 };

enum class Source : std::uint8_t {
  kStore = 1,
  kDenyCache = 2,
  kFallback = 3,
  kRule = 4,
  kNoRule = 5,
};

enum class Algorithm : std::uint8_t {
  kFixedWindow = 1,
  kSlidingLog = 2,
  kSlidingWindow = 3,
  kTokenBucket = 4,
  kLeakyBucket = 5,
  kConcurrency = 6,
};

// The largest cost of one check: the last integer up to which doubles (Lua's numbers) hold all.
inline constexpr std::int64_t kMaxCost = std::int64_t{1} << 53;

// No product an algorithm forms, and no count it keeps, may pass this; rules that could make one
// are refused when loaded. Below it, sums of two are exact in doubles.
inline constexpr std::int64_t kMaxProduct = std::int64_t{1} << 52;

// As written in rules and shown to people: "allowed", "store", "token_bucket", …
std::string_view ToString(Decision decision);
std::string_view ToString(Source source);
std::string_view ToString(Algorithm algorithm);

}  // namespace sluice
