#include "envoy/rls/rate_limit_service.h"

#include <envoy/service/ratelimit/v3/rls.pb.h>

#include <memory>
#include <utility>

#include "envoy/rls/should_rate_limit_handler.h"

namespace sluice::envoy {

RateLimitService::RateLimitService(Limiter& limiter, MetricsRegistry& metrics,
                                   EnvoySettings settings, const CallerAccess* access)
    : limiter_(limiter),
      settings_(std::move(settings)),
      access_(access),
      peer_metrics_(settings_.metric_names ? std::make_optional<PeerMetrics>(metrics)
                                           : std::nullopt),
      shared_([this, &metrics](net::Loop&) {
        return std::make_shared<Shared>(
            Shared{.counters = HitCounters(metrics, settings_.near_limit_ratio, peer_metrics()),
                   .response = {}});
      }) {}

void RateLimitService::AddTo(rpc::Methods& methods) {
  using ::envoy::service::ratelimit::v3::RateLimitRequest;
  const auto& service = *RateLimitRequest::descriptor()->file()->service(0);
  methods.push_back(
      {.path = "/" + service.full_name() + "/ShouldRateLimit", .unary = [this](net::Loop& loop) {
         Shared& shared = shared_.For(loop);
         return std::make_unique<ShouldRateLimitHandler>(
             ShouldRateLimitHandler::Dependencies{.loop = loop,
                                                  .limiter = limiter_,
                                                  .settings = settings_,
                                                  .counters = shared.counters,
                                                  .response = shared.response,
                                                  .access = access_,
                                                  .peer_metrics = peer_metrics()});
       }});
}

int HttpStatusOf(const rpc::Status& status, std::string_view response) {
  switch (status.code) {
    case rpc::StatusCode::kOk:
      break;
    case rpc::StatusCode::kInvalidArgument:
    case rpc::StatusCode::kUnknown:  // no domain, no descriptors
      return 400;
    case rpc::StatusCode::kUnauthenticated:
      return 401;
    case rpc::StatusCode::kPermissionDenied:
      return 403;
    default:
      return 500;
  }
  ::envoy::service::ratelimit::v3::RateLimitResponse answer;
  if (!answer.ParseFromArray(response.data(), static_cast<int>(response.size()))) return 500;
  return answer.overall_code() == answer.OVER_LIMIT ? 429 : 200;
}

}  // namespace sluice::envoy
