#include "app/server.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "app/version.h"
#include "base/admin_address.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/auth_handler.h"
#include "http/json_handler.h"
#include "metrics/process_metrics.h"
#include "rpc/grpc/server.h"
#include "rpc/http2/server.h"
#include "service/reflection_service.h"
#include "store/redis/redis_url.h"

namespace sluice {
namespace {

// Serving begins without Redis, too; but checks of the first moment should find it.
constexpr std::chrono::milliseconds kWaitForRedis(500);

// Redis may be busy for so long (a fork, a slow command of somebody else) without being given up.
constexpr std::chrono::milliseconds kLeastSilence(50);

constexpr std::chrono::seconds kTlsReload(5);

// Until servers have been counted, none knows its share.
Share InitialShare(const Settings& settings) {
  if (settings.redis_url.empty()) return Share::Whole();
  return settings.fleet_share ? Share::OfNumber(*settings.fleet_share) : Share::Nothing();
}

// Two carry more checks than one Redis decides, and more make packs smaller.
std::size_t ThreadCount(const Settings& settings) {
  if (settings.threads > 0) return settings.threads;
  return std::thread::hardware_concurrency() == 1 ? 1 : 2;
}

// Null for a URL without TLS.
Result<std::unique_ptr<net::TlsClientContext>> LoadRedisTls(const Settings& settings) {
  if (!settings.redis_url.starts_with("rediss")) return std::unique_ptr<net::TlsClientContext>();
  auto tls = net::TlsClientContext::Load({.certificate_chain = settings.redis_tls_certificate,
                                          .private_key = settings.redis_tls_key,
                                          .ca = settings.redis_tls_ca});
  if (!tls) return InvalidArgument("redis.tls: " + tls.error().message);
  return tls;
}

Result<std::unique_ptr<RedisStore>> ConnectRedis(const Settings& settings, net::IoThreads& io,
                                                 MetricsRegistry& metrics,
                                                 LateAnswers& late_answers,
                                                 const net::TlsClientContext* tls) {
  if (settings.redis_url.empty()) {
    spdlog::info("store: embedded, for this server alone (give --redis URL to share quotas)");
    return std::unique_ptr<RedisStore>();
  }
  const auto url = RedisUrl::Parse(settings.redis_url);
  if (!url) return InvalidArgument("redis.url: " + url.error().message);
  // A server that lets several timeouts pass in silence hangs.
  const auto silence =
      5 * std::chrono::duration_cast<std::chrono::milliseconds>(settings.redis_timeout);
  auto store = std::make_unique<RedisStore>(
      io, *url,
      RedisStore::Options{.timeout = settings.redis_timeout,
                          .silence = std::max(kLeastSilence, silence),
                          .late_answers = &late_answers,
                          .metrics = &metrics,
                          .tls = tls,
                          .tls_server_name = settings.redis_tls_server_name});
  if (!store->WaitUntilReady(kWaitForRedis)) {
    spdlog::warn("store: {} is not reachable yet; rules' on_store_failure decides until it is",
                 url->ToString());
  }
  return store;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const Settings& settings, RuleReading rules) {
  auto metrics = std::make_unique<MetricsRegistry>();
  auto io = std::make_unique<net::IoThreads>(ThreadCount(settings));
  io->Start();
  auto fallback = std::make_unique<Fallback>(Clock::System(), InitialShare(settings));
  auto redis_tls = LoadRedisTls(settings);
  if (!redis_tls) return redis_tls.error();
  auto redis = ConnectRedis(settings, *io, *metrics, *fallback, redis_tls->get());
  if (!redis) return redis.error();
  std::unique_ptr<Server> server(new Server(settings, {.metrics = std::move(metrics),
                                                       .io = std::move(io),
                                                       .fallback = std::move(fallback),
                                                       .redis_tls = std::move(*redis_tls),
                                                       .redis = std::move(*redis)}));
  server->JoinFleet(settings);
  server->StartRules(settings, std::move(rules));
  for (const auto start :
       {&Server::LoadTls, &Server::StartHttp, &Server::StartGrpc, &Server::StartAdmin}) {
    if (auto started = (server.get()->*start)(settings); !started) return started.error();
  }
  return server;
}

Server::Server(const Settings& settings, Parts parts)
    : metrics_(std::move(parts.metrics)),
      io_(std::move(parts.io)),
      fallback_(std::move(parts.fallback)),
      memory_(fallback_->clock, {.max_keys = settings.max_keys}),
      redis_tls_(std::move(parts.redis_tls)),
      redis_(std::move(parts.redis)),
      limiter_({.store = redis_ ? static_cast<Store&>(*redis_) : memory_,
                .local = memory_,
                .fallback = *fallback_,
                .metrics = *metrics_},
               {.store_timeout = settings.redis_timeout, .deny_cache = redis_ != nullptr}),
      rate_limiter_(limiter_) {
  ShowItself();
}

Server::~Server() { Stop(Duration::zero()); }

// On the metrics page: what this process is and holds.
void Server::ShowItself() {
  ShowProcess(*metrics_);
  metrics_->GaugeFor("sluice_build_info", "1; the label says what runs.", {{"version", kVersion}})
      .Set(1);
  metrics_->ReadFrom("sluice_memory_store_counters",
                     "Counters in this process' memory: all without Redis, else those of outages.",
                     [this] { return static_cast<double>(memory_.size()); });
  metrics_->ReadFrom("sluice_fleet_share",
                     "This server's part of every limit while Redis is away, 0 to 1.", [this] {
                       const Share share = fallback_->share.Get();
                       return static_cast<double>(share.parts) / static_cast<double>(share.of);
                     });
  metrics_->ReadFrom("sluice_log_dropped_total",
                     "Log lines dropped because standard error did not take them.",
                     [] { return static_cast<double>(LogDropped()); });
}

void Server::JoinFleet(const Settings& settings) {
  if (!redis_) {
    sees_redis_ = true;  // the store is here
    return;
  }
  const bool counts = !settings.fleet_share;
  share_known_ = !counts;
  redis_->JoinFleet([this, counts](const redis::FleetView& view) {
    sees_redis_ = view.connected;
    // Found by itself, whether a check has failed or not.
    if (!view.connected) fallback_->recovery.OnFailure(fallback_->clock.Now());
    if (view.servers == 0) return;
    if (counts) fallback_->share.Set(Share::OfServer(view.servers, view.rank));
    share_known_ = true;
  });
  charge_timer_ = std::make_unique<net::Timer>(io_->loop(0).timers(), [this] { ChargeStore(); });
  io_->RunOn(0, [this](net::Loop&) { ChargeStore(); });
}

// On io-0.
void Server::ChargeStore() {
  charge_back_.OnTime();
  charge_timer_->Start(io_->loop(0).now() + ChargeBack::kEvery);
}

// A server that does not know its share would admit nothing while Redis is away.
bool Server::Ready(bool needs_redis) const { return share_known_ && (sees_redis_ || !needs_redis); }

void Server::StartRules(const Settings& settings, RuleReading rules) {
  rules_ = std::make_unique<RuleReloader>(
      RuleReloader::Parts{.limiter = limiter_, .metrics = *metrics_, .clock = Clock::System()},
      RuleReloader::Options{.directory = settings.rules_directory, .index = IndexOptions(settings)},
      std::move(rules));
}

Result<void> Server::LoadTls(const Settings& settings) {
  if (!settings.tls_certificate.empty()) {
    auto tls = net::TlsServerContext::Load({.paths = {.certificate_chain = settings.tls_certificate,
                                                      .private_key = settings.tls_key,
                                                      .ca = settings.tls_client_ca},
                                            .alpn = {"h2"},
                                            .alpn_required = true});
    if (!tls) return InvalidArgument("tls: " + tls.error().message);
    tls_ = std::move(*tls);
  }
  if (!tls_ && !redis_tls_) return {};
  tls_reload_ = std::make_unique<net::Timer>(io_->loop(0).timers(), [this] { ReloadTls(); });
  io_->RunOn(0, [this](net::Loop& loop) { tls_reload_->Start(loop.now() + kTlsReload); });
  return {};
}

// On io-0.
void Server::ReloadTls() {
  static_cast<void>(worker_.Post([this] {
    if (tls_) tls_->Reload();
    if (redis_tls_) redis_tls_->Reload();
  }));
  tls_reload_->Start(io_->loop(0).now() + kTlsReload);
}

Result<void> Server::StartHttp(const Settings& settings) {
  const auto render = [this](const HttpRequest&, HttpResponder responder) {
    static_cast<void>(worker_.Post([this, responder = std::move(responder)] {
      responder(
          {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_->Render()});
    }));
  };
  const auto ready = [this, needs_redis = settings.ready_needs_redis] {
    if (!health_.serving()) return HttpResponse{.status = 503, .body = "stopping\n"};
    if (!Ready(needs_redis)) return HttpResponse{.status = 503, .body = "no redis\n"};
    return HttpResponse{.body = "ready\n"};
  };
  std::vector<HttpRoute> routes = {
      {"/healthz", AnsweredBy([] { return HttpResponse{.body = "ok\n"}; })},
      {"/readyz", AnsweredBy(ready)},
      {"/metrics", render}};
  AddChecks(routes);
  auto http =
      HttpServer::Start(*io_, settings.http, std::move(routes), {.metrics = metrics_.get()});
  if (!http) return http.error();
  http_ = std::move(*http);
  return {};
}

// The unary methods of RateLimiter, for callers without gRPC.
void Server::AddChecks(std::vector<HttpRoute>& routes) {
  rpc::Methods methods;
  rate_limiter_.AddTo(methods);
  const auto calls_of = [&](std::string_view name) -> UnaryCalls& {
    const auto found = std::find_if(methods.begin(), methods.end(),
                                    [&](const auto& it) { return it.path.ends_with(name); });
    return *http_calls_.emplace_back(std::make_unique<UnaryCalls>(*io_, std::move(*found)));
  };
  UnaryCalls& check_limit = calls_of("/CheckLimit");
  routes.push_back(AuthRoute("/v1/auth", check_limit));
  routes.push_back(JsonRoute("/v1/check", check_limit));
  routes.push_back(JsonRoute("/v1/checks", calls_of("/CheckLimits")));
  routes.push_back(JsonRoute("/v1/leases/renew", calls_of("/RenewLease")));
  routes.push_back(JsonRoute("/v1/leases/release", calls_of("/ReleaseLease")));
}

Result<void> Server::StartGrpc(const Settings& settings) {
  rpc::Methods methods;
  rate_limiter_.AddTo(methods);
  AddAdmin({.token = settings.admin_token, .identities = {}}, methods);
  health_.AddTo(methods);
  AddReflection(methods);
  const rpc::ServerOptions options{.address = settings.grpc,
                                   .tls = tls_.get(),
                                   .max_connection_age = settings.max_connection_age,
                                   .metrics = metrics_.get()};
  auto grpc = settings.grpc_engine == "grpc"
                  ? rpc::grpc_engine::StartServer(*io_, std::move(methods), options)
                  : rpc::http2::StartServer(*io_, std::move(methods), options);
  if (!grpc) return grpc.error();
  grpc_ = std::move(*grpc);
  return {};
}

Result<void> Server::StartAdmin(const Settings& settings) {
  if (settings.admin == "off") return {};
  const bool by_itself = settings.admin == "auto";
  auto started = ListenForAdmin(
      settings, by_itself ? AdminAddressOf(grpc_->address()) : Address::Parse(settings.admin));
  if (started || !by_itself) return started;
  spdlog::warn("admin: {}; operators can ask by token only (admin.listen names another place)",
               started.error().message);
  return {};
}

// Always on our own engine: gRPC's cannot make a socket that only its user may open.
Result<void> Server::ListenForAdmin(const Settings& settings, const Result<Address>& address) {
  if (!address) return address.error();
  if (settings.admin == "auto") {
    if (auto made = MakeAdminDirectory(grpc_->address()); !made) return made;
  }
  rpc::Methods methods;
  AddAdmin(
      {.trusted_listener = address->is_unix(), .token = settings.admin_token, .identities = {}},
      methods);
  AddReflection(methods);
  auto admin = rpc::http2::StartServer(*io_, std::move(methods),
                                       {.address = *address, .private_socket = true});
  if (!admin) return admin.error();
  admin_ = std::move(*admin);
  return {};
}

void Server::AddAdmin(AdminAccess access, rpc::Methods& methods) {
  admin_services_.push_back(
      std::make_unique<AdminService>(limiter_, std::move(access), worker_, rules_.get()));
  admin_services_.back()->AddTo(methods);
}

// Handlers may still be called by the store and the worker, so these stop before handlers are
// freed.
void Server::Stop(Duration drain) {
  if (std::exchange(stopped_, true)) return;
  health_.StopServing();
  if (grpc_) grpc_->Stop(drain);
  if (admin_) admin_->Stop(Duration::zero());
  http_.reset();
  if (charge_timer_) io_->RunOn(0, [this](net::Loop&) { charge_timer_.reset(); });
  if (tls_reload_) io_->RunOn(0, [this](net::Loop&) { tls_reload_.reset(); });
  worker_.Stop();
  if (redis_) redis_->Stop();
}

}  // namespace sluice
