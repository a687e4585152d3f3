// Converts this project's errors to gRPC's status codes, which have the same numbers.
//
// Thread-safe.
#pragma once

#include "base/result.h"
#include "rpc/status.h"

namespace sluice {

inline rpc::Status ToStatus(const Error& error) {
  return {static_cast<rpc::StatusCode>(error.code), error.message};
}

}  // namespace sluice
