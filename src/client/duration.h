// Conversions between Duration and protobuf's Duration.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/util/time_util.h>

#include "base/clock.h"

namespace sluice {

// Rounds up to whole microseconds, so that a wait of this length is never too short.
inline Duration ToDuration(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) +
         std::chrono::ceil<Duration>(std::chrono::nanoseconds(duration.nanos()));
}

inline google::protobuf::Duration ToProto(Duration duration) {
  return google::protobuf::util::TimeUtil::MicrosecondsToDuration(duration.count());
}

}  // namespace sluice
