// Reads what a load generator needs of an answer: the decision, where it came from, or the error.
// By hand, as the generated classes cost more than the whole call; the rest is passed over.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "load/grpc_status.h"

namespace sluice::load {

// The API's numbers.
enum Decision : std::int32_t { kAllowed = 1, kDenied = 2 };

// Views into the bytes read.
struct CheckResult {
  bool is_error = false;
  std::int32_t decision = 0;  // of an answer
  std::int32_t source = 0;
  std::int32_t code = kOk;  // of an error
  std::string_view message;
  std::string_view request_id;
};

// Of a serialized CheckLimitResponse. False if it is malformed.
bool ReadResponse(std::string_view bytes, CheckResult& result);

// Of a serialized CheckLimitsResponse, in its order; replaces `results`. False if it is malformed.
bool ReadResults(std::string_view bytes, std::vector<CheckResult>& results);

}  // namespace sluice::load
