#include "api/protobuf_log.h"

#include <string>

#include <google/protobuf/stubs/logging.h>

#include "base/log.h"

namespace sluice {
namespace {

void Log(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

}  // namespace

void SendProtobufLogToOurs() {
  static auto* const before = google::protobuf::SetLogHandler(Log);
  static_cast<void>(before);
}

}  // namespace sluice
