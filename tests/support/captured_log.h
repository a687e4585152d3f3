// CapturedLog: captures the log until it is destroyed, as lines of level and text. Create it before
// the threads that log, and destroy it after they have ended.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/sinks/ostream_sink.h>

#include "base/log.h"
#include "base/mutex.h"

namespace sluice::test {

class CapturedLog {
 public:
  CapturedLog() {
    auto logger = std::make_shared<spdlog::logger>(
        "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_));
    logger->set_pattern("%l %v");
    logger->set_level(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const { return buffer_.text(); }

  // The lines that contain `part`.
  std::vector<std::string> Lines(std::string_view part) const {
    std::istringstream lines(text());
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  int CountLines(std::string_view part) const { return static_cast<int>(Lines(part).size()); }

 private:
  // May be read while other threads log.
  class Buffer : public std::stringbuf {
   public:
    std::string text() const {
      const MutexLock lock(mutex_);
      return str();
    }

   protected:
    std::streamsize xsputn(const char* text, std::streamsize size) override {
      const MutexLock lock(mutex_);
      return std::stringbuf::xsputn(text, size);
    }

   private:
    mutable Mutex mutex_;
  };

  Buffer buffer_;
  std::ostream stream_{&buffer_};
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace sluice::test
