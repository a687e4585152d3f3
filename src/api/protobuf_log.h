// Redirects protobuf's messages about malformed input. By default protobuf writes them to standard
// error, which may block, and callers could cause any number of them.
#pragma once

namespace sluice {

// Sends further messages to this project's log at debug level. Thread-safe.
void SendProtobufLogToOurs();

}  // namespace sluice
