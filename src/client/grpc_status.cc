#include "client/grpc_status.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kCodeNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr std::pair<int, ErrorCode> kPairs[] = {
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

constexpr std::pair<int, int> kOfHttp[] = {
    {400, GrpcStatus::kInternal},         {401, GrpcStatus::kUnauthenticated},
    {403, GrpcStatus::kPermissionDenied}, {404, GrpcStatus::kUnimplemented},
    {429, GrpcStatus::kUnavailable},      {502, GrpcStatus::kUnavailable},
    {503, GrpcStatus::kUnavailable},      {504, GrpcStatus::kUnavailable},
};

constexpr std::pair<std::uint32_t, int> kOfReset[] = {
    {NGHTTP2_REFUSED_STREAM, GrpcStatus::kUnavailable},
    {NGHTTP2_CANCEL, GrpcStatus::kCancelled},
    {NGHTTP2_ENHANCE_YOUR_CALM, GrpcStatus::kResourceExhausted},
    {NGHTTP2_INADEQUATE_SECURITY, GrpcStatus::kPermissionDenied},
};

template <typename From, typename To, std::size_t kSize>
To Find(const std::pair<From, To> (&table)[kSize], From from, std::type_identity_t<To> otherwise) {
  for (const auto& [it, found] : table) {
    if (it == from) return found;
  }
  return otherwise;
}

}  // namespace

std::string_view CodeName(int code) {
  const bool known = code >= 0 && code < static_cast<int>(std::size(kCodeNames));
  return kCodeNames[known ? code : GrpcStatus::kUnknown];
}

std::string_view CodeName(ErrorCode code) {
  return CodeName(std::ranges::find(kPairs, code, &std::pair<int, ErrorCode>::second)->first);
}

Error ToError(const GrpcStatus& status) {
  return {Find(kPairs, status.code, ErrorCode::kInternal), status.message};
}

GrpcStatus StatusOfHttp(int status) {
  return {Find(kOfHttp, status, GrpcStatus::kUnknown),
          fmt::format("HTTP status {} without a grpc-status", status)};
}

GrpcStatus StatusOfReset(std::uint32_t http2_error) {
  return {Find(kOfReset, http2_error, GrpcStatus::kInternal),
          fmt::format("the server reset the call: {}", nghttp2_http2_strerror(http2_error))};
}

int ParseCode(std::string_view header) {
  return ParseNumber<int>(header).value_or(GrpcStatus::kUnknown);
}

}  // namespace sluice
