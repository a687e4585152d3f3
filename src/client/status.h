// gRPC's status codes and Sluice's error codes, translated. Those Sluice never raises become
// kInternal, but CANCELLED: it means that the server went away.
#pragma once

#include <string_view>

#include <grpcpp/support/status.h>

#include "base/result.h"

namespace sluice {

// REQUIRES: !status.ok()
Error ToError(const grpc::Status& status);

// As gRPC spells it: "INVALID_ARGUMENT", "UNAVAILABLE", …
std::string_view ToString(ErrorCode code);

}  // namespace sluice
