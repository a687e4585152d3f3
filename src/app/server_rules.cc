#include "app/server_rules.h"

#include <functional>
#include <utility>

#include "app/service_manager.h"
#include "base/clock.h"

namespace sluice {
namespace {

// If envoy.metric_names is on, counts the sets of rules that were activated or refused, in metrics
// named as in Envoy's service.
std::function<void(bool)> CountLoads(MetricsRegistry& metrics, const EnvoySettings& settings) {
  if (!settings.metric_names) return [](bool) {};
  const auto counter = [&](const char* name, const char* help) -> Counter& {
    return metrics.CounterFor(name, help);
  };
  Counter& good = counter("ratelimit_service_config_load_success", "Sets of rules activated.");
  Counter& bad = counter("ratelimit_service_config_load_error", "Sets of rules refused.");
  return [&good, &bad](bool activated) { (activated ? good : bad).Increment(); };
}

}  // namespace

ServerRules::ServerRules(const Dependencies& dependencies, const Settings& settings,
                         RuleReading first)
    : reloader_({.limiter = dependencies.limiter,
                 .metrics = dependencies.metrics,
                 .clock = Clock::System()},
                {.sources = SourcesOf(settings),
                 .on_reloaded = service_manager::NotifyReloaded,
                 .on_loaded = CountLoads(dependencies.metrics, settings.envoy)},
                std::move(first)) {
  if (settings.envoy.xds.server.empty()) return;
  Subscribe(settings.envoy.xds, dependencies.health);
  Show(dependencies.metrics);
}

void ServerRules::Subscribe(const XdsSettings& settings, HealthService& health) {
  health.SetReady(settings.ready == "always");
  const bool needs_rules = settings.ready == "rules";
  xds_ = std::make_unique<envoy::XdsClient>(
      settings,
      [this, needs_rules, &health](envoy::RuleResources set, envoy::XdsClient::Done done) {
        const bool is_enough = !needs_rules || set.id.resources > 0;
        reloader_.Offer(std::move(set), [is_enough, done, &health](const auto& mistakes) {
          if (mistakes.empty()) health.SetReady(is_enough);
          done(mistakes);
        });
      });
}

void ServerRules::Show(MetricsRegistry& metrics) const {
  metrics.ReadFrom("sluice_xds_connected",
                   "1 while the control plane of Envoy's rules is connected and has answered.",
                   [this] { return xds_->status().connected ? 1.0 : 0.0; });
  metrics.ReadFrom("sluice_xds_resources", "Resources in the last accepted set of rules from xDS.",
                   [this] { return static_cast<double>(xds_->status().resources); });
  metrics.ReadFrom("sluice_xds_set_age_seconds",
                   "Time since a set of rules from xDS was last accepted; -1: none yet.", [this] {
                     const auto since = xds_->status().accepted_at;
                     if (!since) return -1.0;
                     return std::chrono::duration<double>(SteadyNow() - *since).count();
                   });
  metrics.ReadFrom("sluice_xds_accepted_total", "Sets of rules from xDS that were accepted.",
                   [this] { return static_cast<double>(xds_->status().accepted); });
  metrics.ReadFrom("sluice_xds_refused_total", "Sets of rules refused for mistakes.",
                   [this] { return static_cast<double>(xds_->status().refused); });
  metrics.ReadFrom(
      "sluice_xds_last_set_refused",
      "1 if the last set of rules was refused for mistakes and older rules stay in force.",
      [this] { return xds_->status().last_refusal.empty() ? 0.0 : 1.0; });
}

}  // namespace sluice
