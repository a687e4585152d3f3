#include "service/health_messages.h"

#include <grpc/health/v1/health.pb.h>

namespace sluice {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

std::optional<std::string> ParseHealthRequest(std::string_view bytes) {
  HealthCheckRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  return std::move(*request.mutable_service());
}

std::string HealthResponse(int status) {
  HealthCheckResponse response;
  response.set_status(static_cast<HealthCheckResponse::ServingStatus>(status));
  return response.SerializeAsString();
}

}  // namespace sluice
