// How a call ended, in gRPC's terms.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::rpc {

// gRPC's codes, with its numbers.
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
  std::string message;  // for people, UTF-8; the engine escapes it as gRPC asks

  bool ok() const { return code == StatusCode::kOk; }
};

}  // namespace sluice::rpc
