// Conversions between gRPC's status codes and Sluice's error codes. CANCELLED becomes kUnavailable,
// since the server has gone away. Other codes without a counterpart become kInternal.
#pragma once

#include <string_view>

#include <grpcpp/support/status.h>

#include "base/result.h"

namespace sluice {

// REQUIRES: !status.ok()
Error ToError(const grpc::Status& status);

// gRPC's name of the code: "INVALID_ARGUMENT", "UNAVAILABLE", …
std::string_view ToString(ErrorCode code);

}  // namespace sluice
