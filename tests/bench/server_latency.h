// The latency of checks according to the metrics page of a sluiced: the time from reading a request
// to returning its answer.
#pragma once

#include <chrono>
#include <map>
#include <sstream>
#include <string>

#include "tests/support/http_get.h"
#include "tests/support/require.h"
#include "tests/support/sluice_server.h"

namespace sluice::test {

// The buckets of sluice_check_duration_seconds: for each bound in seconds, the number of checks
// that took at most as long as the bound.
using Buckets = std::map<double, double>;

inline Buckets ReadBuckets(const SluiceServer& server) {
  std::istringstream page(HttpGet(server.http_address(), "/metrics").body);
  const std::string begin = "sluice_check_duration_seconds_bucket{le=\"";
  Buckets buckets;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind(begin, 0) != 0) continue;
    const std::size_t quote = line.find('"', begin.size());
    const std::string bound = line.substr(begin.size(), quote - begin.size());
    buckets[bound == "+Inf" ? 3600.0 : std::stod(bound)] = std::stod(line.substr(quote + 2));
  }
  Require(!buckets.empty(), "the server shows no latencies");
  return buckets;
}

// The end of the bucket that contains the quantile (0.99: the 99th percentile) of the checks
// answered between `before` and `after`.
inline Duration QuantileBetween(const Buckets& before, const Buckets& after, double quantile) {
  const double all = after.rbegin()->second - before.rbegin()->second;
  for (const auto& [bound, count] : after) {
    if (count - before.at(bound) >= quantile * all) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bound));
    }
  }
  return Duration::max();
}

}  // namespace sluice::test
