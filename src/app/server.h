// A whole server: io threads, store, limiter and doors, wired from the settings.
//
// Start and Stop by main.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "admin/admin_service.h"
#include "app/rule_reading.h"
#include "app/rule_reloader.h"
#include "base/result.h"
#include "base/worker.h"
#include "config/settings.h"
#include "http/http_server.h"
#include "http/unary_calls.h"
#include "limiter/charge_back.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"
#include "net/io_threads.h"
#include "net/tls_context.h"
#include "rpc/server.h"
#include "service/health_service.h"
#include "service/rate_limiter_service.h"
#include "store/memory/memory_store.h"
#include "store/redis/redis_store.h"

namespace sluice {

class Server {
 public:
  // Serves from the moment it returns.
  // REQUIRES: rules.ok()
  static Result<std::unique_ptr<Server>> Start(const Settings& settings, RuleReading rules);

  // Stops at once, if Stop was not called.
  ~Server();

  // Reads the rules again, without waiting for it.
  void ReloadRules() { rules_->RequestReload(); }

  // Lets callers leave and calls under way end, at most `drain` long, then stops the doors.
  void Stop(Duration drain);

  const Address& grpc_address() const { return grpc_->address(); }
  const Address& http_address() const { return http_->address(); }
  // Where operators ask; null: nowhere but on the gRPC address.
  const Address* admin_address() const { return admin_ ? &admin_->address() : nullptr; }

 private:
  // What a server is made of that exists before it.
  struct Parts {
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<net::IoThreads> io;
    std::unique_ptr<Fallback> fallback;
    std::unique_ptr<net::TlsClientContext> redis_tls;
    std::unique_ptr<RedisStore> redis;
  };

  Server(const Settings& settings, Parts parts);

  void ShowItself();
  void JoinFleet(const Settings& settings);
  void ChargeStore();
  bool Ready(bool needs_redis) const;
  void StartRules(const Settings& settings, RuleReading rules);
  // The steps of Start, in this order.
  Result<void> LoadTls(const Settings& settings);
  Result<void> StartHttp(const Settings& settings);
  void AddChecks(std::vector<HttpRoute>& routes);
  Result<void> StartGrpc(const Settings& settings);
  Result<void> StartAdmin(const Settings& settings);

  void ReloadTls();
  void AddAdmin(AdminAccess access, rpc::Methods& methods);
  Result<void> ListenForAdmin(const Settings& settings, const Result<Address>& address);

  // In the order of who needs whom: each dies before what it uses.
  const std::unique_ptr<MetricsRegistry> metrics_;
  const std::unique_ptr<net::IoThreads> io_;
  const std::unique_ptr<Fallback> fallback_;
  MemoryStore memory_;  // the store, or what decides while Redis is away
  const std::unique_ptr<net::TlsClientContext> redis_tls_;  // null: Redis without TLS
  const std::unique_ptr<RedisStore> redis_;                 // null: the embedded store
  Limiter limiter_;
  ChargeBack charge_back_{limiter_};          // on io-0
  std::unique_ptr<net::Timer> charge_timer_;  // on io-0; null: the embedded store
  std::atomic<bool> share_known_{true};
  std::atomic<bool> sees_redis_{false};
  std::unique_ptr<RuleReloader> rules_;
  Worker worker_;
  RateLimiterService rate_limiter_;
  HealthService health_;
  std::vector<std::unique_ptr<AdminService>> admin_services_;
  std::unique_ptr<net::TlsServerContext> tls_;           // null: gRPC without TLS
  std::unique_ptr<net::Timer> tls_reload_;               // on io-0
  std::vector<std::unique_ptr<UnaryCalls>> http_calls_;  // of http_
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<rpc::Server> grpc_;
  std::unique_ptr<rpc::Server> admin_;  // null: no listener for operators
  bool stopped_ = false;
};

}  // namespace sluice
