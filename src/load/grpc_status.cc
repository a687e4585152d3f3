#include "load/grpc_status.h"

#include <charconv>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

namespace sluice::load {
namespace {

constexpr std::string_view kCodeNames[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

int CodeOfHttp(int status) {
  switch (status) {
    case 400:
      return kInternal;
    case 401:
      return kUnauthenticated;
    case 403:
      return kPermissionDenied;
    case 404:
      return kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return kUnavailable;
    default:
      return kUnknown;
  }
}

int CodeOfReset(std::uint32_t http2_error) {
  switch (http2_error) {
    case NGHTTP2_REFUSED_STREAM:
      return kUnavailable;
    case NGHTTP2_CANCEL:
      return kCancelled;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return kResourceExhausted;
    case NGHTTP2_INADEQUATE_SECURITY:
      return kPermissionDenied;
    default:
      return kInternal;
  }
}

}  // namespace

std::string_view CodeName(int code) {
  const bool known = code >= 0 && code < static_cast<int>(std::size(kCodeNames));
  return kCodeNames[known ? code : kUnknown];
}

GrpcStatus StatusOfHttp(int status) {
  return {CodeOfHttp(status), fmt::format("HTTP status {} without a grpc-status", status)};
}

GrpcStatus StatusOfReset(std::uint32_t http2_error) {
  return {CodeOfReset(http2_error),
          fmt::format("the server reset the call: {}", nghttp2_http2_strerror(http2_error))};
}

int ParseCode(std::string_view header) {
  int code = kUnknown;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), code);
  return error == std::errc() && end == header.data() + header.size() ? code : int{kUnknown};
}

}  // namespace sluice::load
