// How a call ended, and gRPC's names for it. Apart from gRPC's own headers, which the generator
// does without.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::load {

// gRPC's codes that are given here; a server may send any of kCodeNames.
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

// "UNAVAILABLE" of 14, and so on; "UNKNOWN" of what gRPC does not have.
std::string_view CodeName(int code);

// Of a call whose answer is HTTP `status` without a grpc-status, as gRPC maps them.
GrpcStatus StatusOfHttp(int status);

// Of a call that ended by RST_STREAM with `http2_error`, as gRPC maps them.
GrpcStatus StatusOfReset(std::uint32_t http2_error);

// The number of a grpc-status header; kUnknown if it is none.
int ParseCode(std::string_view header);

}  // namespace sluice::load
