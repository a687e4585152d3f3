// The process' log: spdlog's default logger, set up once by main. One line per change of state,
// with its cause and what to do; nothing per request above debug.
#pragma once

#include <string_view>

#include <spdlog/spdlog.h>

#include "base/result.h"

namespace sluice {

// `level` is one of trace, debug, info, warn, error, off. Lines go to standard error.
Result<void> SetUpLog(std::string_view level);

}  // namespace sluice
