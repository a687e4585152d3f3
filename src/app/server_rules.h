// The rules of a server, from files (RuleReloader) and from a control plane (XdsClient), and the
// rules' state for operators.
//
// Thread-safe.
#pragma once

#include <memory>
#include <optional>

#include "admin/rule_source.h"
#include "app/rule_reading.h"
#include "app/rule_reloader.h"
#include "config/settings.h"
#include "envoy/xds/xds_client.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"
#include "service/health_service.h"

namespace sluice {

class ServerRules final : public RuleSource {
 public:
  // All must outlive the rules. `metrics` must not be rendered after the rules are destroyed.
  struct Dependencies {
    Limiter& limiter;
    MetricsRegistry& metrics;
    HealthService& health;  // the setting envoy.xds.ready decides when the server becomes ready
  };

  // Activates `first` before it returns. REQUIRES: first.ok()
  ServerRules(const Dependencies& dependencies, const Settings& settings, RuleReading first);

  ReloadResult Reload() override { return reloader_.Reload(); }
  std::optional<envoy::XdsStatus> xds() const override {
    return xds_ ? std::make_optional(xds_->status()) : std::nullopt;
  }

  // Like Reload, but does not wait.
  void RequestReload() { reloader_.RequestReload(); }

 private:
  void Subscribe(const XdsSettings& settings, HealthService& health);
  void Show(MetricsRegistry& metrics) const;

  RuleReloader reloader_;
  std::unique_ptr<envoy::XdsClient> xds_;  // null: no rules by xDS
};

}  // namespace sluice
