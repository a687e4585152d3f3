// Conversions between Duration and protobuf's Duration.
#pragma once

#include <google/protobuf/duration.pb.h>

#include "base/clock.h"

namespace sluice {

// Rounds up to whole microseconds, so that waiting for the result is always long enough.
inline Duration ToDuration(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) +
         std::chrono::ceil<Duration>(std::chrono::nanoseconds(duration.nanos()));
}

inline google::protobuf::Duration ToProto(Duration duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  google::protobuf::Duration proto;
  proto.set_seconds(seconds.count());
  proto.set_nanos(static_cast<std::int32_t>(std::chrono::nanoseconds(duration - seconds).count()));
  return proto;
}

}  // namespace sluice
