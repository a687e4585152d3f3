// Redirects protobuf's messages about malformed input. By default they go to standard error, which
// may block; callers limit their rate.
#pragma once

namespace sluice {

// Sends further messages to this project's log at debug level. Thread-safe.
void SendProtobufLogToOurs();

}  // namespace sluice
