// One Check RPC of the Health service after the other.
#pragma once

#include "service/health_service.h"
#include "service/unary_call.h"

namespace sluice {

class HealthCheckCall final : public UnaryCall {
 public:
  // `pool` and `service` must outlive the call.
  HealthCheckCall(CallPool& pool, HealthService& service)
      : UnaryCall(pool, service, &HealthService::RequestCheck, Kind::kProbe), health_(service) {}

 private:
  void Serve() override;

  const HealthService& health_;
};

}  // namespace sluice
