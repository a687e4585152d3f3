// Parsers for values in scalars: durations, rates, percentages, offsets, names in certificates.
// Every error states what was found and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace sluice {

struct Rate {
  std::int64_t count = 1;
  Duration period{};
};

// "250ms", "10s", "1m", "1h", "1d": an integer and a unit. From 1 ms to 3,650 days.
Result<Duration> ParseDuration(std::string_view text);

// "10/s", "600/m", "1000/h", "5000/d", or "10 per second" (minute, hour, day). The count is at
// least 1.
Result<Rate> ParseRate(std::string_view text);

// "90%": a whole number.
Result<std::int64_t> ParsePercent(std::string_view text);

// "+08:00": local time minus UTC, from -12:00 to +14:00.
Result<Duration> ParseUtcOffset(std::string_view text);

// A name in a client certificate with its type: "dns:shop.example", "uri:spiffe://example/shop",
// "ip:192.0.2.7" or "email:shop@example". The result has the form of net::Peer::identities.
Result<std::string> ParseIdentity(std::string_view text);

}  // namespace sluice
