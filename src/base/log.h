// The process' log: spdlog's default logger, set up once by main. One line for each state change,
// with its cause and what to do; lines per request only at debug and trace.
//
// A separate thread writes the lines to standard error, so logging never blocks. If standard error
// does not accept data (a full pipe), up to 8,192 lines or 4 MiB are queued; further lines are
// dropped and counted. At exit, queued lines are written for up to one second.
//
// If standard error is systemd's journal, each line begins with its level for the journal ("<4>").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <spdlog/spdlog.h>

#include "base/clock.h"

namespace sluice {

enum class LogFormat {
  kText,  // 2024-10-04T13:46:40.123+00:00 info ready …
  kJson,  // {"time":"2024-10-04T13:46:40.123+00:00","level":"info","message":"ready …"}
};

// `level` is one of trace, debug, info, warn, error, off. Lines go to standard error.
void SetUpLog(std::string_view level, LogFormat format = LogFormat::kText);

// The log of a command: the thread that logs a line writes it to standard error, as "sluice: …".
void SetUpCommandLog();

// Whether standard error is systemd's journal, according to JOURNAL_STREAM, a variable that systemd
// sets.
bool StandardErrorIsJournal();

// The level applies from the next line on. Thread-safe. REQUIRES: SetUpLog has returned.
void SetLogLevel(std::string_view level);

// Waits until all queued lines are written. Returns false after `timeout`.
bool FlushLog(Duration timeout);

// Makes text from another party safe for a log line: characters other than printable ASCII become
// \xHH, and the text is cut off after 300 characters.
std::string LogText(std::string_view text);

// The number of lines dropped since the log was set up. Thread-safe.
std::uint64_t LogDropped();

}  // namespace sluice
