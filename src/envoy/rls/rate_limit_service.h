// The RateLimitService of Envoy's protocol, on a Limiter.
//
// Thread-safe. Must outlive the servers that use its methods.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/caller_access.h"
#include "config/settings.h"
#include "envoy/rls/hit_counters.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"
#include "net/per_loop.h"
#include "rpc/method.h"
#include "rpc/status.h"

namespace sluice::envoy {

class RateLimitService {
 public:
  // If `access` is null, every caller is admitted. `limiter`, `metrics` and `access` must outlive
  // the service.
  RateLimitService(Limiter& limiter, MetricsRegistry& metrics, EnvoySettings settings,
                   const CallerAccess* access = nullptr);

  void AddTo(rpc::Methods& methods);

 private:
  // Shared by all calls of an io thread.
  struct Shared {
    HitCounters counters;
    std::string response;  // used only while a call finishes
  };

  const PeerMetrics* peer_metrics() const { return peer_metrics_ ? &*peer_metrics_ : nullptr; }

  Limiter& limiter_;
  const EnvoySettings settings_;
  const CallerAccess* const access_;
  const std::optional<PeerMetrics> peer_metrics_;  // with envoy.metric_names
  PerLoop<Shared> shared_;
};

// The HTTP status, as in Envoy's service: 200, 429 if the request is over its limit, 400 or 500.
// Callers refused by the setting `callers` get 401 or 403.
int HttpStatusOf(const rpc::Status& status, std::string_view response);

}  // namespace sluice::envoy
