// The process' log: spdlog's default logger, set up once by main. One line per change of state,
// with its cause and what to do; nothing per request above debug.
#pragma once

#include <string_view>

#include <spdlog/spdlog.h>

#include "base/result.h"

namespace sluice {

enum class LogFormat {
  kText,  // 2024-10-04T13:46:40.123+0000 info ready …
  kJson,  // {"time":"2024-10-04T13:46:40.123+00:00","level":"info","message":"ready …"}
};

// `level` is one of trace, debug, info, warn, error, off. Lines go to standard error.
Result<void> SetUpLog(std::string_view level, LogFormat format = LogFormat::kText);

// From the next line on. Any thread, once the log is set up.
Result<void> SetLogLevel(std::string_view level);

}  // namespace sluice
