#include "api/status.h"

namespace sluice {

rpc::StatusCode ToStatusCode(ErrorCode code) {
  using rpc::StatusCode;
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return StatusCode::kInvalidArgument;
    case ErrorCode::kNotFound:
      return StatusCode::kNotFound;
    case ErrorCode::kPermissionDenied:
      return StatusCode::kPermissionDenied;
    case ErrorCode::kUnauthenticated:
      return StatusCode::kUnauthenticated;
    case ErrorCode::kResourceExhausted:
      return StatusCode::kResourceExhausted;
    case ErrorCode::kDeadlineExceeded:
      return StatusCode::kDeadlineExceeded;
    case ErrorCode::kUnavailable:
      return StatusCode::kUnavailable;
    case ErrorCode::kUnimplemented:
      return StatusCode::kUnimplemented;
    case ErrorCode::kInternal:
      return StatusCode::kInternal;
  }
  return StatusCode::kInternal;
}

rpc::Status ToStatus(const Error& error) { return {ToStatusCode(error.code), error.message}; }

}  // namespace sluice
