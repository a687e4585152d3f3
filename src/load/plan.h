// The parameters of a load.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "client/target.h"

namespace sluice::load {

enum class Rpc {
  kUnary,   // CheckLimit
  kBatch,   // CheckLimits
  kStream,  // CheckLimitStream, one stream per connection
};

// Keys are numbers from kFirstKey up. All have 7 digits, so all requests have the same size.
inline constexpr std::uint32_t kFirstKey = 1'000'000;
inline constexpr std::uint32_t kMaxKeys = 9'000'000;
// The maximum number of messages in flight. In an open loop, further messages wait in the
// generator, and their latency includes that wait.
inline constexpr std::uint32_t kMaxInFlight = 100'000;

struct Plan {
  Target target;
  Rpc rpc = Rpc::kUnary;
  std::uint32_t checks = 1;  // checks per message: 1 for kUnary, else 1 to 1,000

  std::string request;       // a serialized CheckLimitRequest without request_id and key
  std::string key_name;      // the attribute that varies; empty: all requests are equal
  std::uint32_t keys = 1;    // number of different keys; 1 to kMaxKeys
  double zipf_exponent = 0;  // 0: uniform distribution

  double rate = 0;               // open loop: checks per second; 0: closed loop
  std::uint32_t in_flight = 64;  // maximum messages in flight; 1 to kMaxInFlight
  std::uint32_t connections = 8;
  std::uint32_t threads = 1;  // at most one per connection
  bool sleep = false;         // unary only: a call ends after the wait that its answer requests

  Duration warm_up{};  // messages that start in this time are not counted
  Duration duration = std::chrono::seconds(10);
  std::uint64_t messages = 0;                  // maximum number of messages; 0: no maximum
  Duration timeout = std::chrono::seconds(1);  // for connecting, and for the last answers
  Duration call_timeout{};                     // unary only: for each call; 0: none
};

}  // namespace sluice::load
