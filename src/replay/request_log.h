// The requests of one or more logs, in the order of their times.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "replay/line_parser.h"
#include "replay/log_file.h"
#include "replay/logged_second.h"

namespace sluice::replay {

// The names of the fields that have a request's attributes, time, cost and amounts.
struct LogMapping {
  std::map<std::string, std::string>
      attributes;  // an attribute that is not listed is in the field of the same name
  std::optional<std::string> time;  // otherwise "time"
  std::optional<std::string> cost;  // otherwise each cost is 1
  std::map<std::string, std::string> amounts;
};

// A line that was late or was not understood.
struct LineFault {
  std::string log;
  std::uint64_t line = 0;
  std::string what;
};

struct LogFacts {
  static constexpr std::size_t kNamed = 10;

  std::uint64_t lines = 0;
  std::uint64_t requests = 0;
  std::uint64_t not_understood = 0;
  std::uint64_t late = 0;         // came later than `reorder` allows
  std::vector<LineFault> faults;  // the first kNamed lines that were late or not understood
  struct Field {
    std::string name;
    std::uint64_t present = 0;  // how many lines have it
  };
  // The cost, then the amounts. `name` is the flag that names the field, such as "--cost"; empty if
  // the flag was not given.
  std::vector<Field> numbers;
  std::vector<Field> attributes;  // in the shape's order; `present` counts accepted lines only
};

class RequestLog {
 public:
  struct Options {
    std::vector<std::string> paths;
    LogMapping mapping;
    std::string domain;
    std::vector<std::string> attributes;  // that rules use
    Duration reorder{};                   // how much older a line may be than the lines before it
    std::size_t max_memory = 0;           // of the requests that wait to be sorted
  };

  static Result<std::unique_ptr<RequestLog>> Open(Options options);

  // The next second with requests, sorted; null at the end. Valid until the next call. Fails if the
  // requests that wait to be sorted do not fit in memory.
  Result<LoggedSecond*> Next();

  const RequestShape& shape() const { return shape_; }
  const LogFacts& facts() const { return facts_; }
  std::string NameOf(LinePlace place) const;
  // The number of bytes read so far from all logs.
  std::uint64_t bytes_read() const;
  // The size of all logs in bytes; 0 if not known.
  std::uint64_t size() const;

 private:
  struct Source {
    std::unique_ptr<LogFile> file;
    std::unique_ptr<LineParser> parser;
    Time newest = Time::min();
  };

  explicit RequestLog(Options options) : options_(std::move(options)) {}
  Result<void> OpenAll();
  // Reads lines until a second is complete (later lines cannot change it), or all logs have ended.
  Result<void> ReadOn();
  void Read(Source& source);
  const char* Take(Source& source, std::string_view line);
  void Fault(const Source& source, std::string_view what);
  Source* Laggard();

  const Options options_;
  RequestShape shape_;
  std::vector<Wanted> wanted_;
  std::vector<Source> sources_;
  std::map<std::chrono::sys_seconds, LoggedSecond> seconds_;  // not yet returned by Next
  Time complete_ = Time::min();                               // lines of earlier seconds are late
  LoggedSecond current_;
  std::vector<std::string_view> values_;
  std::vector<std::int64_t> numbers_;
  LogFacts facts_;
};

}  // namespace sluice::replay
