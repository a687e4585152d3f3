// Converts this project's errors to gRPC's status codes.
//
// Thread-safe.
#pragma once

#include "base/result.h"
#include "rpc/status.h"

namespace sluice {

rpc::StatusCode ToStatusCode(ErrorCode code);
rpc::Status ToStatus(const Error& error);

}  // namespace sluice
