#include "service/health_check_call.h"

#include <string_view>

namespace sluice {

void HealthCheckCall::Serve() {
  const std::string_view bytes = RequestBytes();
  HealthService::Request request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Finish(InvalidArgument("the request is not a valid protobuf message"));
  }
  HealthService::Response response;
  response.set_status(health_.StatusOf(request.service()));
  if (response.status() == HealthService::Response::SERVICE_UNKNOWN) {
    return Finish(Error{ErrorCode::kNotFound, "service: not one of this server"});
  }
  Finish(Serialize(response));
}

}  // namespace sluice
