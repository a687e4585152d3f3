#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

namespace sluice {

Result<void> SetUpLog(std::string_view level) {
  constexpr std::array<std::string_view, 6> kLevels{"trace", "debug", "info",
                                                    "warn",  "error", "off"};
  if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end()) {
    return InvalidArgument(
        fmt::format("\"{}\" is no log level; allowed are {}", level, fmt::join(kLevels, ", ")));
  }
  auto logger = std::make_shared<spdlog::logger>(
      "sluice", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace sluice
