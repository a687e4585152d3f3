#include "app/server.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "app/version.h"
#include "base/clock.h"
#include "base/log.h"
#include "metrics/process_metrics.h"
#include "store/redis/redis_store.h"
#include "store/redis/redis_url.h"

namespace sluice {
namespace {

// Serving begins without Redis, too; but checks of the first moment should find it.
constexpr std::chrono::milliseconds kWaitForRedis(500);

// Redis may be busy for so long (a fork, a slow command of somebody else) without being given up.
constexpr std::chrono::milliseconds kLeastSilence(50);

Result<std::unique_ptr<Store>> ConnectRedis(const Settings& settings, MetricsRegistry& metrics) {
  if (settings.redis_url.empty()) {
    spdlog::info("store: embedded, for this server alone (give --redis URL to share quotas)");
    return std::unique_ptr<Store>();
  }
  const auto url = RedisUrl::Parse(settings.redis_url);
  if (!url) return InvalidArgument("redis.url: " + url.error().message);
  // A server that lets several timeouts pass in silence hangs.
  const auto silence =
      5 * std::chrono::duration_cast<std::chrono::milliseconds>(settings.redis_timeout);
  auto store = std::make_unique<RedisStore>(
      *url, RedisStore::Options{
                .loop = {.silence = std::max(kLeastSilence, silence), .metrics = &metrics}});
  if (!store->WaitUntilReady(kWaitForRedis)) {
    spdlog::warn("store: {} is not reachable yet; rules' on_store_failure decides until it is",
                 url->ToString());
  }
  return std::unique_ptr<Store>(std::move(store));
}

AdminDoor AdminDoorOf(const Settings& settings) {
  using Opens = AdminDoor::Opens;
  const bool by_token = settings.admin_access == "token";
  if (!by_token && !settings.admin_token.empty()) {
    spdlog::warn("admin: there is a token, but admin.access is {}; only with token it opens a door",
                 settings.admin_access);
  }
  const Opens opens = by_token                           ? Opens::kToTokens
                      : settings.admin_access == "local" ? Opens::kToLocalCallers
                                                         : Opens::kToNobody;
  return AdminDoor(opens, settings.admin_token);
}

std::vector<HttpRoute> Routes(const MetricsRegistry& metrics) {
  return {
      {"/healthz", [] { return HttpResponse{.body = "ok\n"}; }},
      {"/metrics",
       [&metrics] {
         return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                             .body = metrics.Render()};
       }},
  };
}

}  // namespace

Server::Server(const Settings& settings, std::unique_ptr<MetricsRegistry> metrics,
               std::unique_ptr<Store> redis)
    : metrics_(std::move(metrics)),
      memory_(Clock::System(), {.max_keys = settings.max_keys}),
      redis_(std::move(redis)),
      limiter_({.store = redis_ ? *redis_ : memory_,
                .local = memory_,
                .clock = Clock::System(),
                .metrics = *metrics_},
               {.store_timeout = settings.redis_timeout, .deny_cache = redis_ != nullptr}) {
  ShowItself();
}

// On the metrics page: what this process is and holds.
void Server::ShowItself() {
  ShowProcess(*metrics_);
  metrics_->GaugeFor("sluice_build_info", "1; the label says what runs.", {{"version", kVersion}})
      .Set(1);
  metrics_->ReadFrom("sluice_memory_store_counters",
                     "Counters in this process' memory: all without Redis, else those of outages.",
                     [this] { return static_cast<double>(memory_.size()); });
}

Result<std::unique_ptr<Server>> Server::Start(const Settings& settings, RuleReading rules) {
  auto metrics = std::make_unique<MetricsRegistry>();
  auto redis = ConnectRedis(settings, *metrics);
  if (!redis) return redis.error();
  std::unique_ptr<Server> server(
      new Server(settings, std::move(metrics), std::move(redis).value()));
  server->StartRules(settings, std::move(rules));
  auto http = HttpServer::Start(settings.http, Routes(*server->metrics_));
  if (!http) return http.error();
  server->http_ = std::move(http).value();
  auto grpc = GrpcServer::Start(server->limiter_, {.address = settings.grpc,
                                                   .admin_door = AdminDoorOf(settings),
                                                   .rules = server->rules_.get()});
  if (!grpc) return grpc.error();
  server->grpc_ = std::move(grpc).value();
  return server;
}

void Server::StartRules(const Settings& settings, RuleReading rules) {
  rules_ = std::make_unique<RuleReloader>(
      RuleReloader::Parts{.limiter = limiter_, .metrics = *metrics_, .clock = Clock::System()},
      RuleReloader::Options{.directory = settings.rules_directory, .index = IndexOptions(settings)},
      std::move(rules));
}

void Server::Stop(Duration drain) {
  grpc_->Stop(std::chrono::duration_cast<std::chrono::milliseconds>(drain));
  http_.reset();
}

}  // namespace sluice
