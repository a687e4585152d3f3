// The status of a call, and gRPC's names of status codes. The generator does not depend on gRPC's
// headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::load {

// The gRPC codes that the generator itself uses. A server may send others.
enum GrpcCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kDeadlineExceeded = 4,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

struct GrpcStatus {
  int code = kOk;
  std::string message;
};

// gRPC's name of a code, such as "UNAVAILABLE" for 14; "UNKNOWN" for other numbers.
std::string_view CodeName(int code);

// gRPC's mapping for a response with HTTP `status` and no grpc-status.
GrpcStatus StatusOfHttp(int status);

// gRPC's mapping for a call that ended by RST_STREAM with `http2_error`.
GrpcStatus StatusOfReset(std::uint32_t http2_error);

// Parses a grpc-status header. Returns kUnknown if it is not a number.
int ParseCode(std::string_view header);

}  // namespace sluice::load
