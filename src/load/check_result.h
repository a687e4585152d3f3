// Parses the fields of an answer that a load generator needs: the decision, its source and wait, or
// the error. Does not use the generated classes: they would read the state of every limit, which
// costs more than the rest of the work on an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "client/grpc_status.h"

namespace sluice::load {

// The numbers of v1.Decision.
enum Decision : std::int32_t { kAllowed = 1, kDenied = 2 };

// The texts are views of the parsed bytes.
struct CheckResult {
  bool is_error = false;
  std::int32_t decision = 0;  // if !is_error
  std::int32_t source = 0;
  std::optional<Duration> wait;
  std::int32_t code = GrpcStatus::kOk;  // if is_error
  std::string_view message;
  std::string_view request_id;
};

// Parses a serialized CheckLimitResponse. Returns false if it is malformed.
bool ReadResponse(std::string_view bytes, CheckResult& result);

// Parses a serialized CheckLimitsResponse and sets `results` to its results, in order. Returns
// false if the bytes are malformed.
bool ReadResults(std::string_view bytes, std::vector<CheckResult>& results);

}  // namespace sluice::load
