// What protobuf says when it is given malformed messages. By itself it writes to standard error,
// which may block; callers decide how often.
#pragma once

namespace sluice {

// From now on it goes to the log, at debug. Thread-safe.
void SendProtobufLogToOurs();

}  // namespace sluice
