// Parsers of log lines: nginx's combined format, JSON lines and CSV with a header.
//
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::replay {

// A value to take from each line.
struct Wanted {
  std::string name;         // what names it in messages: "--time"
  std::string field;        // "userId"; in JSON also "usage.total"
  bool must_exist = false;  // its absence is an error, if all lines have the same fields
};

class LineParser {
 public:
  virtual ~LineParser() = default;

  // Sets `values` to those wanted, in order; data() is null where the line has none. They are valid
  // until the next call, as long as the line is. Returns what is wrong with the line, or null.
  // REQUIRES: 64 bytes may be read beyond the end of `line`.
  virtual const char* Parse(std::string_view line, std::vector<std::string_view>& values) = 0;
};

// `start` is the beginning of the file `log`, which shows the format. For CSV its first line is the
// header. Fails if a field that must exist does not.
Result<std::unique_ptr<LineParser>> MakeLineParser(const std::string& log, std::string_view start,
                                                   const std::vector<Wanted>& wanted);

}  // namespace sluice::replay
