// What a load generator is to send, and how.
#pragma once

#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/clock.h"

namespace sluice::load {

enum class Rpc {
  kUnary,   // CheckLimit
  kBatch,   // CheckLimits
  kStream,  // CheckLimitStream, one stream a connection
};

// Keys are numbers of as many digits, from kFirstKey up: all requests are of one size.
inline constexpr std::uint32_t kFirstKey = 1'000'000;
inline constexpr std::uint32_t kMaxKeys = 9'000'000;
// Messages under way at once, in an open loop, too: more wait at the generator, and their time
// counts.
inline constexpr std::uint32_t kMaxInFlight = 100'000;

struct Plan {
  Address address;
  Rpc rpc = Rpc::kUnary;
  std::uint32_t checks = 1;  // in one message; 1 to 1,000, of kUnary 1

  std::string request;  // a serialized CheckLimitRequest that lacks request_id and the key
  std::string key_name = "user";  // the attribute that varies
  std::uint32_t keys = 1;         // its values; 1 to kMaxKeys
  double zipf_exponent = 0;       // 0: all values are as likely

  double rate = 0;               // open loop: checks a second; 0: closed loop
  std::uint32_t in_flight = 64;  // closed loop: messages under way; 1 to kMaxInFlight
  std::uint32_t connections = 8;
  std::uint32_t threads = 1;  // at most one a connection

  Duration warm_up{};  // what starts in it is not counted
  Duration duration = std::chrono::seconds(10);
  Duration timeout = std::chrono::seconds(1);  // for connecting, and for the last answers
};

}  // namespace sluice::load
