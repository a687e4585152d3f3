#include "base/log.h"

#include <spdlog/details/os.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/log_writer.h"
#include "base/mutex.h"
#include "base/text.h"

namespace sluice {
namespace {

spdlog::level::level_enum LevelOf(std::string_view level) {
  return spdlog::level::from_str(std::string(level));
}

// %* in a pattern: the message as a JSON string.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string json = JsonString({message.payload.data(), message.payload.size()});
    out.append(json.data(), json.data() + json.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

std::unique_ptr<spdlog::formatter> FormatterOf(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == LogFormat::kJson) {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  }
  return formatter;
}

bool ErrorsAreSeenInColor() {
  return spdlog::details::os::in_terminal(stderr) && spdlog::details::os::is_color_terminal();
}

std::string_view ColorOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return "\033[31m";
  if (level == spdlog::level::warn) return "\033[33m";
  return level == spdlog::level::info ? "\033[32m" : "\033[36m";
}

// The prefix that tells the journal a line's level: see sd-daemon(3). The journal removes it.
std::string_view JournalPrefixOf(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return "<3>";
  if (level == spdlog::level::warn) return "<4>";
  return level == spdlog::level::info ? "<6>" : "<7>";
}

// Formats lines and adds them to the writer's queue.
class QueueingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit QueueingSink(std::shared_ptr<LogWriter> writer) : writer_(std::move(writer)) {}

 private:
  using Message = spdlog::details::log_msg;

  void sink_it_(const Message& message) override {
    if (dropped_ > 0) {
      const std::string note = fmt::format("{} log lines were dropped", dropped_);
      if (!Queue(Message(message.time, {}, message.logger_name, spdlog::level::warn, note))) {
        ++dropped_;
        return;
      }
      dropped_ = 0;
    }
    if (!Queue(message)) ++dropped_;
  }

  bool Queue(const Message& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    const std::size_t begin = message.color_range_start;
    const std::size_t end = message.color_range_end;
    if (in_journal_)
      return writer_->Write(fmt::format("{}{}", JournalPrefixOf(message.level), text));
    if (!colored_ || begin >= end) return writer_->Write(text);
    return writer_->Write(fmt::format("{}{}{}\033[m{}", text.substr(0, begin),
                                      ColorOf(message.level), text.substr(begin, end - begin),
                                      text.substr(end)));
  }

  void flush_() override {}

  const std::shared_ptr<LogWriter> writer_;
  const bool in_journal_ = StandardErrorIsJournal();
  const bool colored_ = ErrorsAreSeenInColor();
  std::uint64_t dropped_ = 0;  // lines dropped since the last line was queued
};

Mutex mutex;
std::weak_ptr<LogWriter> current SLUICE_GUARDED_BY(mutex);

std::shared_ptr<LogWriter> Current() {
  const MutexLock lock(mutex);
  return current.lock();
}

}  // namespace

void SetUpLog(std::string_view level, LogFormat format) {
  auto writer = std::make_shared<LogWriter>(STDERR_FILENO);
  auto logger = std::make_shared<spdlog::logger>("sluice", std::make_shared<QueueingSink>(writer));
  logger->set_formatter(FormatterOf(format));
  logger->set_level(LevelOf(level));
  spdlog::set_default_logger(std::move(logger));
  const MutexLock lock(mutex);
  current = writer;
}

void SetUpCommandLog() {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "sluice", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("sluice: %v");
}

bool StandardErrorIsJournal() {
  const char* const journal = std::getenv("JOURNAL_STREAM");  // device:inode
  struct stat error {};
  return journal != nullptr && fstat(STDERR_FILENO, &error) == 0 &&
         journal == fmt::format("{}:{}", error.st_dev, error.st_ino);
}

void SetLogLevel(std::string_view level) { spdlog::set_level(LevelOf(level)); }

bool FlushLog(Duration timeout) {
  const auto writer = Current();
  return writer == nullptr || writer->Flush(timeout);
}

std::string LogText(std::string_view text) {
  constexpr std::size_t kMost = 300;
  return PrintableText(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

std::uint64_t LogDropped() {
  const auto writer = Current();
  return writer == nullptr ? 0 : writer->dropped();
}

}  // namespace sluice
