// Reads what a load generator needs from an answer: the decision, its source and wait, or the
// error. By hand, because the generated classes cost more than the whole call; other fields are
// skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "load/grpc_status.h"

namespace sluice::load {

// The API's numbers.
enum Decision : std::int32_t { kAllowed = 1, kDenied = 2 };

// Views into the bytes read.
struct CheckResult {
  bool is_error = false;
  std::int32_t decision = 0;  // of an answer
  std::int32_t source = 0;
  std::optional<Duration> wait;
  std::int32_t code = kOk;  // of an error
  std::string_view message;
  std::string_view request_id;
};

// Of a serialized CheckLimitResponse. False if it is malformed.
bool ReadResponse(std::string_view bytes, CheckResult& result);

// Of a serialized CheckLimitsResponse, in its order; replaces `results`. False if it is malformed.
bool ReadResults(std::string_view bytes, std::vector<CheckResult>& results);

}  // namespace sluice::load
