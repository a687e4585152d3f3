// What is logged while this lives. Made before what logs on other threads, and dies after it.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include <spdlog/sinks/ostream_sink.h>

#include "base/log.h"

namespace sluice::test {

class CapturedLog {
 public:
  CapturedLog() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  // REQUIRES: nothing logs meanwhile
  std::string text() const { return text_.str(); }

  // How many lines contain `part`. REQUIRES: nothing logs meanwhile
  int CountLines(std::string_view part) const {
    std::istringstream lines(text_.str());
    int count = 0;
    for (std::string line; std::getline(lines, line);) {
      count += line.find(part) != std::string::npos ? 1 : 0;
    }
    return count;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace sluice::test
