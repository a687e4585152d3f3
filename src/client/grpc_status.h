// The status of a gRPC call, and gRPC's names of status codes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

struct GrpcStatus {
  // The codes with a name in this project. A server may send others.
  enum Code : int {
    kOk = 0,
    kCancelled = 1,
    kUnknown = 2,
    kInvalidArgument = 3,
    kDeadlineExceeded = 4,
    kNotFound = 5,
    kPermissionDenied = 7,
    kResourceExhausted = 8,
    kUnimplemented = 12,
    kInternal = 13,
    kUnavailable = 14,
    kUnauthenticated = 16,
  };

  int code = kOk;
  std::string message;
};

// gRPC's name of a code, such as "UNAVAILABLE" for 14. "UNKNOWN" if gRPC has no such code.
std::string_view CodeName(int code);

// gRPC's name of the code: "INVALID_ARGUMENT", "UNAVAILABLE", …
std::string_view CodeName(ErrorCode code);

// CANCELLED becomes kUnavailable, since the server has ended the call. Other codes without a
// counterpart become kInternal. REQUIRES: status.code != kOk
Error ToError(const GrpcStatus& status);

// gRPC's mapping for a response that has the HTTP status `status`, but no grpc-status.
GrpcStatus StatusOfHttp(int status);

// gRPC's mapping for a call that ended by RST_STREAM with `http2_error`.
GrpcStatus StatusOfReset(std::uint32_t http2_error);

// Parses a grpc-status header. Returns kUnknown if it is not a number.
int ParseCode(std::string_view header);

}  // namespace sluice
