// Parsers of log lines: nginx's combined format, JSON lines and CSV with a header.
//
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "replay/log_file.h"

namespace sluice::replay {

// A value to take from each line.
struct Wanted {
  std::string name;         // its name in error messages, such as "--time"
  std::string field;        // the field that has it: "userId"; in JSON also "usage.total"
  bool must_exist = false;  // nginx and CSV: an error if the log has no such field
};

class LineParser {
 public:
  virtual ~LineParser() = default;

  // Sets `values` to the wanted values, in order; data() is null for a value that the line lacks.
  // The values are valid until the next call, and only while the line is valid. Returns what is
  // wrong with the line, or null.
  // REQUIRES: 64 bytes may be read beyond the end of `line`.
  virtual const char* Parse(std::string_view line, std::vector<std::string_view>& values) = 0;
};

// The beginning of `log` determines the format. For CSV, reads the first line, which is the header.
// Fails if the log is empty, its format is unknown, or it lacks a field that must exist.
Result<std::unique_ptr<LineParser>> MakeLineParser(LogFile& log, const std::vector<Wanted>& wanted);

}  // namespace sluice::replay
