#include "client/grpc_status.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

namespace sluice {
namespace {

constexpr std::string_view kCodeNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

struct CodePair {
  int grpc;
  ErrorCode ours;
};

constexpr CodePair kPairs[] = {
    {GrpcStatus::kInvalidArgument, ErrorCode::kInvalidArgument},
    {GrpcStatus::kNotFound, ErrorCode::kNotFound},
    {GrpcStatus::kPermissionDenied, ErrorCode::kPermissionDenied},
    {GrpcStatus::kUnauthenticated, ErrorCode::kUnauthenticated},
    {GrpcStatus::kResourceExhausted, ErrorCode::kResourceExhausted},
    {GrpcStatus::kDeadlineExceeded, ErrorCode::kDeadlineExceeded},
    {GrpcStatus::kUnavailable, ErrorCode::kUnavailable},
    {GrpcStatus::kCancelled, ErrorCode::kUnavailable},
    {GrpcStatus::kUnimplemented, ErrorCode::kUnimplemented},
    {GrpcStatus::kInternal, ErrorCode::kInternal},
};

int CodeOfHttp(int status) {
  switch (status) {
    case 400:
      return GrpcStatus::kInternal;
    case 401:
      return GrpcStatus::kUnauthenticated;
    case 403:
      return GrpcStatus::kPermissionDenied;
    case 404:
      return GrpcStatus::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return GrpcStatus::kUnavailable;
    default:
      return GrpcStatus::kUnknown;
  }
}

int CodeOfReset(std::uint32_t http2_error) {
  switch (http2_error) {
    case NGHTTP2_REFUSED_STREAM:
      return GrpcStatus::kUnavailable;
    case NGHTTP2_CANCEL:
      return GrpcStatus::kCancelled;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return GrpcStatus::kResourceExhausted;
    case NGHTTP2_INADEQUATE_SECURITY:
      return GrpcStatus::kPermissionDenied;
    default:
      return GrpcStatus::kInternal;
  }
}

}  // namespace

std::string_view CodeName(int code) {
  const bool known = code >= 0 && code < static_cast<int>(std::size(kCodeNames));
  return kCodeNames[known ? code : GrpcStatus::kUnknown];
}

std::string_view CodeName(ErrorCode code) {
  const auto* const pair = std::find_if(std::begin(kPairs), std::end(kPairs),
                                        [code](const CodePair& it) { return it.ours == code; });
  return CodeName(pair->grpc);
}

Error ToError(const GrpcStatus& status) {
  for (const CodePair& pair : kPairs) {
    if (pair.grpc == status.code) return {pair.ours, status.message};
  }
  return {ErrorCode::kInternal, status.message};
}

GrpcStatus StatusOfHttp(int status) {
  return {CodeOfHttp(status), fmt::format("HTTP status {} without a grpc-status", status)};
}

GrpcStatus StatusOfReset(std::uint32_t http2_error) {
  return {CodeOfReset(http2_error),
          fmt::format("the server reset the call: {}", nghttp2_http2_strerror(http2_error))};
}

int ParseCode(std::string_view header) {
  int code = GrpcStatus::kUnknown;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), code);
  return error == std::errc() && end == header.data() + header.size() ? code
                                                                      : int{GrpcStatus::kUnknown};
}

}  // namespace sluice
