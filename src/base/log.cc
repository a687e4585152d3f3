#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "base/json.h"

namespace sluice {
namespace {

Result<spdlog::level::level_enum> ParseLevel(std::string_view level) {
  constexpr std::array<std::string_view, 6> kLevels{"trace", "debug", "info",
                                                    "warn",  "error", "off"};
  if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end()) {
    return InvalidArgument(
        fmt::format("\"{}\" is no log level; allowed are {}", level, fmt::join(kLevels, ", ")));
  }
  return spdlog::level::from_str(std::string(level));
}

// %* in a pattern: the message as a string of JSON.
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

}  // namespace

Result<void> SetUpLog(std::string_view level, LogFormat format) {
  const auto parsed = ParseLevel(level);
  if (!parsed) return parsed.error();
  auto logger = std::make_shared<spdlog::logger>(
      "sluice", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_formatter(FormatterOf(format));
  logger->set_level(*parsed);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

Result<void> SetLogLevel(std::string_view level) {
  const auto parsed = ParseLevel(level);
  if (!parsed) return parsed.error();
  spdlog::set_level(*parsed);
  return {};
}

}  // namespace sluice
