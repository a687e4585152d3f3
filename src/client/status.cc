#include "client/status.h"

namespace sluice {
namespace {

struct CodePair {
  grpc::StatusCode grpc;
  ErrorCode ours;
  std::string_view name;
};

constexpr CodePair kCodes[] = {
    {grpc::INVALID_ARGUMENT, ErrorCode::kInvalidArgument, "INVALID_ARGUMENT"},
    {grpc::NOT_FOUND, ErrorCode::kNotFound, "NOT_FOUND"},
    {grpc::PERMISSION_DENIED, ErrorCode::kPermissionDenied, "PERMISSION_DENIED"},
    {grpc::UNAUTHENTICATED, ErrorCode::kUnauthenticated, "UNAUTHENTICATED"},
    {grpc::RESOURCE_EXHAUSTED, ErrorCode::kResourceExhausted, "RESOURCE_EXHAUSTED"},
    {grpc::DEADLINE_EXCEEDED, ErrorCode::kDeadlineExceeded, "DEADLINE_EXCEEDED"},
    {grpc::UNAVAILABLE, ErrorCode::kUnavailable, "UNAVAILABLE"},
    {grpc::CANCELLED, ErrorCode::kUnavailable, "UNAVAILABLE"},
    {grpc::UNIMPLEMENTED, ErrorCode::kUnimplemented, "UNIMPLEMENTED"},
    {grpc::INTERNAL, ErrorCode::kInternal, "INTERNAL"},
};

}  // namespace

Error ToError(const grpc::Status& status) {
  for (const CodePair& pair : kCodes) {
    if (pair.grpc == status.error_code()) return {pair.ours, status.error_message()};
  }
  return {ErrorCode::kInternal, status.error_message()};
}

std::string_view ToString(ErrorCode code) {
  for (const CodePair& pair : kCodes) {
    if (pair.ours == code) return pair.name;
  }
  return "INTERNAL";
}

}  // namespace sluice
