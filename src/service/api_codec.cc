#include "service/api_codec.h"

#include <chrono>

namespace sluice {
namespace {

template <typename SecondsAndNanos>  // google.protobuf.Duration or Timestamp
void Fill(std::chrono::microseconds from, SecondsAndNanos& to) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(from);
  to.set_seconds(seconds.count());
  to.set_nanos(static_cast<std::int32_t>(std::chrono::nanoseconds(from - seconds).count()));
}

// The enumerations of core/vocabulary.h have the numbers of the API.
template <typename To, typename From>
To SameNumber(From from) {
  return static_cast<To>(from);
}

grpc::StatusCode ToStatusCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case ErrorCode::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case ErrorCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ErrorCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case ErrorCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case ErrorCode::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

}  // namespace

void FillStatus(const LimitAnswer& from, v1::LimitStatus& to) {
  to.Clear();
  to.set_rule(from.rule->rule.name);
  to.set_index(from.index);
  to.set_algorithm(SameNumber<v1::Algorithm>(from.algorithm));
  to.set_admitted(from.verdict.admitted);
  to.set_shadow(from.rule->rule.shadow);
  to.set_source(SameNumber<v1::Source>(from.source));
  if (!from.verdict.admitted && from.verdict.retry_after != Verdict::kNever) {
    Fill(from.verdict.retry_after, *to.mutable_retry_after());
  }
  to.set_dropped_cost(static_cast<std::uint64_t>(from.verdict.dropped));
  if (!from.state_known) return;
  to.set_limit(static_cast<std::uint64_t>(from.verdict.limit));
  to.set_remaining(static_cast<std::uint64_t>(from.verdict.remaining));
  Fill(from.verdict.reset_after, *to.mutable_reset_after());
}

void FillResponse(const CheckAnswer& answer, std::string_view request_id,
                  v1::CheckLimitResponse& response) {
  response.Clear();
  response.set_decision(SameNumber<v1::Decision>(answer.decision));
  response.set_source(SameNumber<v1::Source>(answer.source));
  response.set_request_id(request_id.data(), request_id.size());
  FillTime(answer.decided_at, *response.mutable_decided_at());
  if (answer.decision == Decision::kAllowed && answer.wait > Duration::zero()) {
    Fill(answer.wait, *response.mutable_wait());
  }
  if (answer.decision == Decision::kDenied && answer.retry_after) {
    Fill(*answer.retry_after, *response.mutable_retry_after());
  }
  if (answer.lease) {
    response.mutable_lease()->set_id(answer.lease->id);
    Fill(answer.lease->ttl, *response.mutable_lease()->mutable_ttl());
  }
  for (const auto& limit : answer.limits) FillStatus(limit, *response.add_limits());
}

void FillError(const Error& from, std::string_view request_id, v1::CheckLimitError& error) {
  error.set_code(ToStatusCode(from.code));
  error.set_message(from.message);
  error.set_request_id(request_id.data(), request_id.size());
}

void FillTime(Time from, google::protobuf::Timestamp& to) { Fill(from.time_since_epoch(), to); }

void FillDuration(Duration from, google::protobuf::Duration& to) { Fill(from, to); }

grpc::Status ToStatus(const Error& error) { return {ToStatusCode(error.code), error.message}; }

SteadyTime ToSteadyTime(gpr_timespec deadline) {
  // std::chrono::steady_clock and gRPC's monotonic clock are both Linux' CLOCK_MONOTONIC.
  const gpr_timespec at = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  constexpr auto kLast = std::chrono::floor<std::chrono::seconds>(SteadyTime::max());
  if (at.tv_sec >= kLast.time_since_epoch().count()) return SteadyTime::max();
  return SteadyTime(std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec));
}

}  // namespace sluice
