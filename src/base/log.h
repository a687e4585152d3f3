// The process' log: spdlog's default logger, set up once by main. One line per change of state,
// with its cause and what to do; nothing per request above debug.
//
// Lines go to standard error by a thread of their own. If it takes none (a full pipe), lines wait,
// and beyond 8,192 new ones are dropped and counted: logging never blocks. When the process ends,
// what waits is written for a second at most.
#pragma once

#include <cstdint>
#include <string_view>

#include <spdlog/spdlog.h>

#include "base/clock.h"
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

// Waits until all that was logged is written. False: it took longer than `timeout`.
bool FlushLog(Duration timeout);

// How many lines were dropped since the log was set up. Thread-safe.
std::uint64_t LogDropped();

}  // namespace sluice
