// The values of the grpc-status and grpc-message headers.
#pragma once

#include <string>
#include <string_view>

#include "rpc/status.h"

namespace sluice::rpc::http2 {

// The number of a status code, "0" to "16". Never destroyed.
std::string_view StatusNumber(StatusCode code);

// Encodes `message` for grpc-message: '%' and all bytes except printable ASCII become %XX.
std::string PercentEncode(std::string_view message);

}  // namespace sluice::rpc::http2
