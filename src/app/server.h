// A whole server: store, limiter and doors, wired from the settings. Members stand in the order of
// who needs whom, so that each dies before what it uses.
//
// Start and Stop by main.
#pragma once

#include <memory>
#include <string>

#include "app/rule_reading.h"
#include "app/rule_reloader.h"
#include "base/result.h"
#include "config/settings.h"
#include "http/http_server.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"
#include "service/grpc_server.h"
#include "store/memory/memory_store.h"

namespace sluice {

class Server {
 public:
  // Serves from the moment it returns.
  // REQUIRES: rules.ok()
  static Result<std::unique_ptr<Server>> Start(const Settings& settings, RuleReading rules);

  // Reads the rules again, without waiting for it.
  void ReloadRules() { rules_->RequestReload(); }

  // Lets callers leave and calls under way end, at most `drain` long, then stops the doors.
  void Stop(Duration drain);

  const Address& grpc_address() const { return grpc_->address(); }
  const Address& http_address() const { return http_->address(); }

 private:
  Server(const Settings& settings, std::unique_ptr<MetricsRegistry> metrics,
         std::unique_ptr<Store> redis);
  void ShowItself();
  void StartRules(const Settings& settings, RuleReading rules);

  const std::unique_ptr<MetricsRegistry> metrics_;
  MemoryStore memory_;                  // the store, or what decides while Redis is away
  const std::unique_ptr<Store> redis_;  // null: the embedded store
  Limiter limiter_;
  std::unique_ptr<RuleReloader> rules_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
};

}  // namespace sluice
