// A whole server: io threads, store, limiter and listeners, created from the settings.
//
// Started and stopped by main.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "admin/admin_service.h"
#include "admin/watch_service.h"
#include "app/credentials.h"
#include "app/rule_reading.h"
#include "app/server_rules.h"
#include "base/result.h"
#include "base/worker.h"
#include "config/settings.h"
#include "envoy/rls/rate_limit_service.h"
#include "http/http_server.h"
#include "http/unary_calls.h"
#include "limiter/fallback.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"
#include "net/io_threads.h"
#include "rpc/http2/server.h"
#include "service/health_service.h"
#include "service/rate_limiter_service.h"
#include "store/memory/memory_store.h"
#include "store/redis/redis_store.h"

namespace sluice {

class Server {
 public:
  // When Start returns, the server accepts calls.
  // REQUIRES: rules.ok()
  static Result<std::unique_ptr<Server>> Start(const Settings& settings, RuleReading rules);

  // Stops immediately, if Stop was not called.
  ~Server();

  // Reloads the rules, without waiting.
  void ReloadRules() { rules_->RequestReload(); }

  // Waits until callers have left and calls have ended, then stops the listeners. Then waits until
  // Redis has received the charges and lease changes that it missed in an outage. Waits for at most
  // `drain`; HTTP may take up to a second longer.
  void Stop(Duration drain);

  const Address& grpc_address() const { return grpc_->address(); }
  const Address& http_address() const { return http_->address(); }
  // The address of the listener for operator calls. Null: there is no such listener.
  const Address* admin_address() const { return admin_ ? &admin_->address() : nullptr; }

 private:
  // The parts that Start creates before the server.
  struct Parts {
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<net::IoThreads> io;
    std::unique_ptr<Fallback> fallback;
    std::unique_ptr<Credentials> credentials;
    std::unique_ptr<RedisStore> redis;
  };

  Server(const Settings& settings, Parts parts);

  void RegisterProcessMetrics();
  void JoinFleet(const Settings& settings);
  void ChargeLater();
  void ReturnGrants();
  bool Ready(bool needs_redis) const;
  // The steps of Start.
  Result<void> StartHttp(const Settings& settings);
  void AddChecks(std::vector<HttpRoute>& routes);
  UnaryCalls& CallsOf(const rpc::Methods& methods, std::string_view name);
  void AddEnvoy(const Settings& settings, std::vector<HttpRoute>& routes);
  Result<void> StartGrpc(const Settings& settings);
  Result<void> StartMetrics(const Settings& settings);
  Result<void> StartAdmin(const Settings& settings);

  void DoUpkeep();
  void ReturnMemory();
  HttpRoute MetricsRoute(const std::string& path);
  void ShowMetrics(const HttpRequest& request, const HttpResponder& responder);
  Result<void> AdmitToMetrics(const HttpRequest& request) const;
  Result<const Caller*> AdmitKnown(const AdminAccess::Caller& it) const;
  HttpRoute ForCallers(HttpRoute route) const;
  void AddAdminTo(rpc::Methods& methods, const AdminAccess& access);
  Result<void> ListenForAdmin(const Settings& settings, const Result<Address>& address);

  // In order of dependency: each member is destroyed before the members that it uses.
  const std::unique_ptr<MetricsRegistry> metrics_;
  const std::unique_ptr<net::IoThreads> io_;
  const std::unique_ptr<Fallback> fallback_;
  MemoryStore memory_;  // the store; with Redis, the fallback during outages
  const std::unique_ptr<Credentials> credentials_;
  const std::unique_ptr<RedisStore> redis_;  // null: the embedded store
  Limiter limiter_;
  std::unique_ptr<net::Timer> charge_timer_;  // on io-0; null: the embedded store
  std::unique_ptr<net::Timer> grant_timer_;   // the same
  std::atomic<bool> share_known_{true};
  std::atomic<bool> sees_redis_{false};
  HealthService health_;
  std::unique_ptr<ServerRules> rules_;
  Worker worker_;
  WatchService watch_;
  RateLimiterService rate_limiter_;
  std::unique_ptr<envoy::RateLimitService> envoy_;  // null: no envoy.rules and no envoy.xds.server
  WrongTokens wrong_tokens_{*metrics_};
  const AdminAccess public_access_;           // for operator calls on the public addresses
  std::unique_ptr<net::Timer> upkeep_timer_;  // on io-0
  std::vector<std::unique_ptr<UnaryCalls>> http_calls_;  // of http_
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<HttpServer> metrics_http_;  // null: no second address for metrics
  std::unique_ptr<rpc::http2::Server> grpc_;
  std::unique_ptr<rpc::http2::Server> admin_;  // null: no listener for operator calls
  bool stopped_ = false;
};

}  // namespace sluice
