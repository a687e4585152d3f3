// Reads a serialized sluice.v1.CheckLimitsRequest, without copies.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

inline constexpr std::size_t kMaxChecksPerMessage = 1000;

// Sets `checks` to views of the serialized CheckLimitRequests in `bytes`, without parsing them.
// Fails with INVALID_ARGUMENT on malformed bytes, and unless there are 1 to kMaxChecksPerMessage.
Result<void> ParseChecks(std::string_view bytes, std::vector<std::string_view>& checks);

}  // namespace sluice
