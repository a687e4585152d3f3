// The two messages of grpc.health.v1 as bytes.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// The service in a serialized HealthCheckRequest. Empty if the bytes are malformed.
std::optional<std::string> ParseHealthRequest(std::string_view bytes);

// A serialized HealthCheckResponse. `status`: a HealthCheckResponse::ServingStatus.
std::string HealthResponse(int status);

}  // namespace sluice
