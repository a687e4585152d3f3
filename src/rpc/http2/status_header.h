// Values of the headers grpc-status and grpc-message.
#pragma once

#include <string>
#include <string_view>

#include "rpc/status.h"

namespace sluice::rpc::http2 {

// The number of a status code, "0" to "16"; lives for ever.
std::string_view StatusNumber(StatusCode code);

// `message` as grpc-message has it: bytes other than printable ASCII, and '%', as %XX.
std::string PercentEncode(std::string_view message);

}  // namespace sluice::rpc::http2
