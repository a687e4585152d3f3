// The gRPC status of a call.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace sluice::rpc {

// gRPC's status codes with their standard numbers.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

struct Status {
  StatusCode code = StatusCode::kOk;
  std::string message;  // for people, in UTF-8; the server encodes it for grpc-message

  bool ok() const { return code == StatusCode::kOk; }
};

}  // namespace sluice::rpc

namespace sluice {

// ErrorCode has gRPC's numbers.
inline rpc::Status ToStatus(const Error& error) {
  return {static_cast<rpc::StatusCode>(error.code), error.message};
}

}  // namespace sluice
