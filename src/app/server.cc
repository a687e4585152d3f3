#include "app/server.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "admin/admin_access.h"
#include "app/connection_limits.h"
#include "app/version.h"
#include "base/admin_address.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/auth_handler.h"
#include "http/json_handler.h"
#include "metrics/process_metrics.h"
#include "service/reflection_service.h"
#include "store/redis/redis_url.h"

// A function of mimalloc; null in builds without mimalloc.
extern "C" void mi_collect(bool force) __attribute__((weak));

namespace sluice {
namespace {

// The server also starts without Redis, but first waits this long for Redis, so that the first
// checks can use it.
constexpr std::chrono::milliseconds kWaitForRedis(500);

// Even if redis.timeout is short, this server closes the connection only after Redis has been
// silent for this long: a fork or a slow command of another client may block Redis.
constexpr std::chrono::milliseconds kLeastSilence(50);

// The interval at which files with certificates and secrets are read again, and memory is returned
// to the system.
constexpr std::chrono::seconds kUpkeepInterval(5);

// A tenth of a loop's time, in EpollLoop::load's unit.
constexpr std::uint32_t kLittleLoad = 102;

// HTTP drains after gRPC, because HTTP answers probes while gRPC drains. If gRPC has used up the
// time, HTTP still gets this much.
constexpr Duration kLeastHttpDrain = std::chrono::seconds(1);

// This server's share of the limits during an outage. With Redis, the share is nothing until the
// servers have been counted, unless a setting gives it.
Share InitialShare(const Settings& settings) {
  if (!settings.uses_redis()) return Share::Whole();
  return settings.fleet_share ? Share::OfNumber(*settings.fleet_share) : Share::Nothing();
}

// Two threads can send more checks than one Redis can decide. With more threads, each call to Redis
// would contain fewer checks.
std::size_t ThreadCount(const Settings& settings) {
  if (settings.threads > 0) return settings.threads;
  return std::thread::hardware_concurrency() == 1 ? 1 : 2;
}

ConnectionLimits MaxConnections(const Settings& settings) {
  return DivideConnections(settings.max_connections, settings.http_max_connections,
                           RaiseMaxOpenFiles());
}

Histogram& LoopLateness(MetricsRegistry& metrics) {
  using std::chrono::milliseconds;
  static constexpr std::array<Histogram::Duration, 14> kBounds{
      milliseconds(3),   milliseconds(5),   milliseconds(7),   milliseconds(10),  milliseconds(15),
      milliseconds(20),  milliseconds(30),  milliseconds(50),  milliseconds(75),  milliseconds(100),
      milliseconds(150), milliseconds(250), milliseconds(500), milliseconds(1000)};
  return metrics.HistogramFor("sluice_loop_lateness_seconds",
                              "Lateness of the iterations of io threads that were at least 2 ms "
                              "late.",
                              kBounds);
}

Result<std::unique_ptr<RedisStore>> ConnectRedis(const Settings& settings, net::IoThreads& io,
                                                 MetricsRegistry& metrics, StoreListener& listener,
                                                 const Credentials& credentials) {
  if (!settings.uses_redis()) {
    spdlog::info("store: embedded, for this server only (give --redis URL to share quotas)");
    return std::unique_ptr<RedisStore>();
  }
  const auto url = RedisUrl::Parse(settings.redis_url);
  if (!url) return InvalidArgument("redis.url: " + url.error().message);
  // A Redis that is silent for several timeouts counts as hung.
  const auto silence =
      5 * std::chrono::duration_cast<std::chrono::milliseconds>(settings.redis_timeout);
  auto store = std::make_unique<RedisStore>(
      io, *url,
      RedisStore::Options{.timeout = settings.redis_timeout,
                          .silence = std::max(kLeastSilence, silence),
                          .listener = &listener,
                          .metrics = &metrics,
                          .tls = credentials.redis_tls(),
                          .tls_server_name = settings.redis_tls_server_name,
                          .password = credentials.redis_password()});
  if (!store->WaitUntilReady(kWaitForRedis)) {
    spdlog::warn(
        "store: {} is not reachable yet; on_store_failure of each rule decides until Redis answers",
        url->ToString());
  }
  return store;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const Settings& settings, RuleReading rules) {
  auto metrics = std::make_unique<MetricsRegistry>();
  auto io = std::make_unique<net::IoThreads>(ThreadCount(settings));
  io->MeasureLateness(LoopLateness(*metrics));
  io->Start();
  // If the system's clock is set during an outage, local windows must not end.
  const Clock& clock = settings.uses_redis() ? Clock::Monotonic() : Clock::System();
  auto fallback = std::make_unique<Fallback>(clock, InitialShare(settings));
  auto credentials = Credentials::Load(settings, *metrics);
  if (!credentials) return credentials.error();
  auto redis = ConnectRedis(settings, *io, *metrics, *fallback, **credentials);
  if (!redis) return redis.error();
  std::unique_ptr<Server> server(new Server(settings, {.metrics = std::move(metrics),
                                                       .io = std::move(io),
                                                       .fallback = std::move(fallback),
                                                       .credentials = std::move(*credentials),
                                                       .redis = std::move(*redis)}));
  server->JoinFleet(settings);
  server->rules_ = std::make_unique<ServerRules>(
      ServerRules::Dependencies{
          .limiter = server->limiter_, .metrics = *server->metrics_, .health = server->health_},
      settings, std::move(rules));
  for (const auto start :
       {&Server::StartHttp, &Server::StartMetrics, &Server::StartGrpc, &Server::StartAdmin}) {
    if (auto started = (server.get()->*start)(settings); !started) return started.error();
  }
  return server;
}

Server::Server(const Settings& settings, Parts parts)
    : metrics_(std::move(parts.metrics)),
      io_(std::move(parts.io)),
      fallback_(std::move(parts.fallback)),
      memory_(fallback_->clock, {.max_keys = settings.max_keys, .max_memory = settings.max_memory}),
      credentials_(std::move(parts.credentials)),
      redis_(std::move(parts.redis)),
      limiter_({.store = redis_ ? static_cast<Store&>(*redis_) : memory_,
                .local = memory_,
                .fallback = *fallback_,
                .metrics = *metrics_},
               {.store_timeout = settings.redis_timeout, .deny_cache = redis_ != nullptr}),
      watch_({.limiter = limiter_, .metrics = *metrics_, .worker = worker_},
             {.top_keys = settings.top_keys, .show_keys = settings.show_keys}),
      rate_limiter_(limiter_, credentials_->callers()),
      public_access_{.token = &credentials_->admin_token(),
                     .identities = settings.admin_identities,
                     .wrong_tokens = &wrong_tokens_} {
  if (settings.envoy.is_on()) {
    envoy_ = std::make_unique<envoy::RateLimitService>(limiter_, *metrics_, settings.envoy,
                                                       credentials_->callers());
  }
  RegisterProcessMetrics();
  upkeep_timer_ = std::make_unique<net::Timer>(io_->loop(0).timers(), [this] { DoUpkeep(); });
  io_->RunOn(0, [this](net::Loop& loop) { upkeep_timer_->Start(loop.now() + kUpkeepInterval); });
}

Server::~Server() { Stop(Duration::zero()); }

// Metrics of the process itself.
void Server::RegisterProcessMetrics() {
  ShowProcess(*metrics_);
  metrics_->GaugeFor("sluice_build_info", "1; the label is the version.", {{"version", kVersion}})
      .Set(1);
  metrics_->ReadFrom("sluice_memory_store_counters",
                     "Counters in this process' memory. Without Redis: all counters. With Redis: "
                     "the counters used during outages.",
                     [this] { return static_cast<double>(memory_.size()); });
  metrics_->ReadFrom("sluice_memory_store_bytes",
                     "Approximate size of the counters in this process' memory.",
                     [this] { return static_cast<double>(memory_.memory()); });
  metrics_->ReadFrom("sluice_memory_store_leases",
                     "Leases of units in this process' memory: open, or settled in the last "
                     "minute.",
                     [this] { return static_cast<double>(memory_.leases()); });
  metrics_->ReadFrom("sluice_fleet_share",
                     "This server's part of limits while Redis is unavailable, 0 to 1.", [this] {
                       const Share share = fallback_->share();
                       return static_cast<double>(share.parts) / static_cast<double>(share.of);
                     });
  metrics_->ReadFrom("sluice_log_dropped_total",
                     "Log lines dropped because standard error was blocked or failed.",
                     [] { return static_cast<double>(LogDropped()); });
}

void Server::JoinFleet(const Settings& settings) {
  if (!redis_) {
    sees_redis_ = true;  // the store is in this process
    return;
  }
  const bool counts = !settings.fleet_share;
  share_known_ = !counts;
  Gauge& servers = metrics_->GaugeFor("sluice_fleet_servers",
                                      "The servers that share the limits, as counted in Redis.");
  redis_->JoinFleet([this, counts, &servers, lost = false](const redis::FleetView& view) mutable {
    sees_redis_ = view.connected;
    const std::size_t part = redis_->PartOf(redis::FleetMember::kKey);
    // The fallback must learn of an outage even if no check fails. Only the first loss counts: if
    // only this connection cannot be made again, Redis still decides checks.
    if (!view.connected && !std::exchange(lost, true)) fallback_->OnPartLost(part);
    const bool is_back = view.accepted && std::exchange(lost, false);
    if (is_back) fallback_->OnPartFound(part);
    if (view.servers == 0) return;
    servers.Set(static_cast<double>(view.servers));
    // When Redis is back, other servers may not have reported again yet. So this server's first
    // rank may be wrong.
    if (!counts || lost || is_back) return;
    if (fallback_->SetShare(Share::OfServer(view.servers, view.rank))) share_known_ = true;
  });
  charge_timer_ = std::make_unique<net::Timer>(io_->loop(0).timers(), [this] {
    fallback_->Reconcile();
    ChargeLater();
  });
  grant_timer_ = std::make_unique<net::Timer>(io_->loop(0).timers(), [this] { ReturnGrants(); });
  limiter_.grants().SetOnUse([this] { io_->loop(0).Post([this] { ReturnGrants(); }); });
  fallback_->SetOnPending([this] { io_->loop(0).Post([this] { ChargeLater(); }); });
}

// On io-0.
void Server::ChargeLater() {
  if (!charge_timer_ || charge_timer_->active() || !fallback_->HasPending()) return;
  charge_timer_->Start(io_->loop(0).now() + Fallback::kReconcileEvery);
}

// On io-0.
void Server::ReturnGrants() {
  if (!grant_timer_) return;
  GrantTable& grants = limiter_.grants();
  grants.ReturnDue();
  if (grants.in_use()) grant_timer_->Start(io_->loop(0).now() + GrantTable::kReturnEvery);
}

// Not ready before this server's share of the limits is known: until then, the server would
// admit nothing while Redis is unavailable.
bool Server::Ready(bool needs_redis) const {
  return share_known_ && (sees_redis_ || !needs_redis) && health_.ready();
}

// mimalloc returns memory to the system only while a thread allocates or frees. So a thread with
// little to do explicitly returns the memory that an earlier load has left.
void Server::ReturnMemory() {
  rate_limiter_.TrimPools();
  if (mi_collect == nullptr) return;
  for (std::size_t i = 0; i < io_->size(); ++i) {
    net::EpollLoop& loop = io_->loop(i);
    if (loop.load() < kLittleLoad) loop.Post([] { mi_collect(true); });
  }
}

// On io-0.
void Server::DoUpkeep() {
  static_cast<void>(worker_.Post([this] {
    credentials_->Reload();
    watch_.TidyKeys();
  }));
  ReturnMemory();
  upkeep_timer_->Start(io_->loop(0).now() + kUpkeepInterval);
}

Result<void> Server::StartHttp(const Settings& settings) {
  const auto ready = [this, needs_redis = settings.ready_needs_redis] {
    if (health_.stopping()) return HttpResponse{.status = 503, .body = "stopping\n"};
    if (!health_.ready()) return HttpResponse{.status = 503, .body = "no rules from xDS yet\n"};
    if (!Ready(needs_redis)) return HttpResponse{.status = 503, .body = "no redis\n"};
    return HttpResponse{.body = "ready\n"};
  };
  std::vector<HttpRoute> routes = {
      {.path = "/healthz",
       .handler = AnsweredBy([] { return HttpResponse{.body = "ok\n"}; }),
       .is_probe = true},
      {.path = "/readyz", .handler = AnsweredBy(ready), .is_probe = true},
      MetricsRoute("/metrics")};
  AddChecks(routes);
  if (envoy_) AddEnvoy(settings, routes);
  auto http = HttpServer::Start(*io_, settings.http, std::move(routes),
                                {.max_connections = MaxConnections(settings).http,
                                 .max_connection_age = settings.max_connection_age,
                                 .tls = settings.tls_http ? credentials_->server_tls() : nullptr,
                                 .metrics = metrics_.get()});
  if (!http) return Error{http.error().code, "http.listen: " + http.error().message};
  http_ = std::move(*http);
  return {};
}

Result<void> Server::StartMetrics(const Settings& settings) {
  if (settings.metrics == "off") return {};
  const auto address = Address::Parse(settings.metrics);
  if (!address) return address.error();
  auto http = HttpServer::Start(*io_, *address, {MetricsRoute(settings.metrics_path)},
                                {.max_connections = kMaxAdminConnections,
                                 .tls = settings.tls_http ? credentials_->server_tls() : nullptr,
                                 .metrics = metrics_.get()});
  if (!http) return Error{http.error().code, "metrics.listen: " + http.error().message};
  metrics_http_ = std::move(*http);
  spdlog::info("metrics: at {}{}, too", metrics_http_->address().ToString(), settings.metrics_path);
  return {};
}

HttpRoute Server::MetricsRoute(const std::string& path) {
  return {path, [this](const auto& request, const auto& to) { ShowMetrics(request, to); }};
}

void Server::ShowMetrics(const HttpRequest& request, const HttpResponder& responder) {
  if (const auto admitted = AdmitToMetrics(request); !admitted) {
    return responder(ErrorResponse(ToStatus(admitted.error())));
  }
  static_cast<void>(worker_.Post([this, responder] {
    responder(
        {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_->Render()});
  }));
}

// The page shows the names of domains and rules, so callers need the right to read it.
Result<void> Server::AdmitToMetrics(const HttpRequest& request) const {
  const auto caller = AdmitKnown(
      {.authorization = OnlyHeader(request.headers, "authorization"), .peer = request.peer});
  if (!caller) return caller.error();
  if (*caller == nullptr) return {};
  return credentials_->callers()->MayReadMetrics(**caller);
}

// Admits operators and the callers in the setting `callers`. Without this setting, admits every
// caller. Returns null for an operator, and if there is no such setting.
Result<const Caller*> Server::AdmitKnown(const AdminAccess::Caller& it) const {
  const CallerAccess* const callers = credentials_->callers();
  if (callers == nullptr || public_access_.AdmitsByName(it.peer)) return nullptr;
  if (const Caller* const known = callers->Find(it.authorization, it.peer.identities)) return known;
  const auto admitted = AdmitOperator(public_access_, it);
  if (admitted) return nullptr;
  if (admitted.error().code == ErrorCode::kResourceExhausted) return admitted.error();
  return callers->RefuseUnknown();
}

// Changes `route`: if a caller is not in the setting `callers`, it is refused before its JSON is
// read. Reading JSON costs more than a check.
HttpRoute Server::ForCallers(HttpRoute route) const {
  const CallerAccess* const callers = credentials_->callers();
  if (callers == nullptr) return route;
  route.handler = [callers, handler = std::move(route.handler)](const HttpRequest& request,
                                                                HttpResponder responder) {
    const auto caller =
        callers->Identify(OnlyHeader(request.headers, "authorization"), request.peer.identities);
    if (!caller) return responder(ErrorResponse(ToStatus(caller.error())));
    handler(request, std::move(responder));
  };
  return route;
}

// Adds the gRPC methods that HTTP callers may call.
void Server::AddChecks(std::vector<HttpRoute>& routes) {
  rpc::Methods methods;
  rate_limiter_.AddTo(methods);
  AddAdminTo(methods, public_access_);
  UnaryCalls& check_limit = CallsOf(methods, "/CheckLimit");
  routes.push_back(AuthRoute("/v1/auth", check_limit));
  routes.push_back(ForCallers(JsonRoute("/v1/check", check_limit)));
  routes.push_back(ForCallers(JsonRoute("/v1/checks", CallsOf(methods, "/CheckLimits"))));
  routes.push_back(ForCallers(JsonRoute("/v1/leases/renew", CallsOf(methods, "/RenewLease"))));
  routes.push_back(ForCallers(JsonRoute("/v1/leases/release", CallsOf(methods, "/ReleaseLease"))));
  routes.push_back(ForCallers(JsonRoute("/v1/leases/settle", CallsOf(methods, "/SettleLease"))));
  routes.push_back(JsonPage("/rules", CallsOf(methods, "/ListRules"), worker_));
}

UnaryCalls& Server::CallsOf(const rpc::Methods& methods, std::string_view name) {
  const auto found =
      std::ranges::find_if(methods, [&](const auto& it) { return it.path.ends_with(name); });
  return *http_calls_.emplace_back(std::make_unique<UnaryCalls>(*io_, *found));
}

// The paths of Envoy's own rate limit service.
void Server::AddEnvoy(const Settings& settings, std::vector<HttpRoute>& routes) {
  rpc::Methods methods;
  envoy_->AddTo(methods);
  routes.push_back(
      ForCallers(JsonRoute("/json", CallsOf(methods, "/ShouldRateLimit"), envoy::HttpStatusOf)));
  const auto healthcheck = [this, needs = settings.ready_needs_redis] {
    const bool healthy = !health_.stopping() && Ready(needs);
    return healthy ? HttpResponse{.body = "OK"}
                   : HttpResponse{.status = 500, .body = "not ready\n"};
  };
  routes.push_back({.path = "/healthcheck", .handler = AnsweredBy(healthcheck), .is_probe = true});
}

Result<void> Server::StartGrpc(const Settings& settings) {
  rpc::Methods methods;
  rate_limiter_.AddTo(methods);
  AddAdminTo(methods, public_access_);
  watch_.AddTo(methods, public_access_);
  std::vector<std::string> other_names;
  if (envoy_) {
    envoy_->AddTo(methods);
    other_names = {"ratelimit"};
  }
  health_.AddTo(methods, other_names);
  AddReflection(methods, [this](const rpc::Call& call) -> Result<void> {
    if (const auto known = AdmitKnown(OperatorOf(call)); !known) return known.error();
    return {};
  });
  rpc::http2::ServerOptions options{.address = settings.grpc,
                                    .socket_mode = settings.grpc_socket_mode,
                                    .tls = credentials_->server_tls(),
                                    .max_connections = MaxConnections(settings).grpc,
                                    .max_connection_age = settings.max_connection_age,
                                    .metrics = metrics_.get()};
  if (credentials_->callers() != nullptr) {
    options.knows_caller = [this](const rpc::Call& call) {
      return AdmitKnown(OperatorOf(call)).has_value();
    };
  }
  auto grpc = rpc::http2::Server::Start(*io_, std::move(methods), options);
  if (!grpc) return Error{grpc.error().code, "grpc.listen: " + grpc.error().message};
  grpc_ = std::move(*grpc);
  return {};
}

Result<void> Server::StartAdmin(const Settings& settings) {
  if (settings.admin == "off") return {};
  const bool by_itself = settings.admin == "auto";
  auto started = ListenForAdmin(
      settings, by_itself ? AdminAddressOf(grpc_->address()) : Address::Parse(settings.admin));
  if (started || !by_itself) return started;
  spdlog::warn("admin: {}; admin calls need a token (or set admin.listen to another address)",
               started.error().message);
  return {};
}

Result<void> Server::ListenForAdmin(const Settings& settings, const Result<Address>& address) {
  if (!address) return address.error();
  if (settings.admin == "auto") {
    if (auto made = MakeAdminDirectory(grpc_->address()); !made) return made;
  }
  rpc::Methods methods;
  AdminAccess access = public_access_;
  access.trusted_listener = address->is_unix();
  AddAdminTo(methods, access);
  watch_.AddTo(methods, access);
  AddReflection(methods, [access](const rpc::Call& call) -> Result<void> {
    if (const auto admitted = AdmitOperator(access, call); !admitted) return admitted.error();
    return {};
  });
  static_assert(WatchService::kMaxWatchers < kMaxAdminConnections);
  auto admin =
      rpc::http2::Server::Start(*io_, std::move(methods),
                                {.address = *address,
                                 .socket_mode = S_IRUSR | S_IWUSR,
                                 .tls = address->is_unix() ? nullptr : credentials_->server_tls(),
                                 .max_connections = kMaxAdminConnections});
  if (!admin) return admin.error();
  admin_ = std::move(*admin);
  return {};
}

void Server::AddAdminTo(rpc::Methods& methods, const AdminAccess& access) {
  AddAdmin(methods,
           {.limiter = limiter_, .access = access, .worker = worker_, .rules = rules_.get()});
}

// The store and the worker may still call handlers, so both are stopped before handlers are freed.
void Server::Stop(Duration drain) {
  if (std::exchange(stopped_, true)) return;
  const SteadyTime deadline = SteadyNow() + drain;
  health_.StopServing();
  limiter_.grants().Close();
  if (grpc_) grpc_->Stop(drain);
  if (admin_) admin_->Stop(Duration::zero());
  const auto left = std::chrono::duration_cast<Duration>(deadline - SteadyNow());
  if (http_) http_->Stop(std::max(left, std::min(drain, kLeastHttpDrain)));
  http_.reset();
  metrics_http_.reset();
  // Charges and lease changes that Redis has not received by the deadline are lost, and logged.
  if (redis_) fallback_->WaitUntilCharged(deadline);
  if (redis_) redis_->WaitUntilSettled(deadline);
  io_->RunOn(0, [this](net::Loop&) {
    if (grant_timer_) limiter_.grants().ReturnDue();
    charge_timer_.reset();
    grant_timer_.reset();
    upkeep_timer_.reset();
  });
  worker_.Stop();
  if (!redis_) return;
  redis_->Stop();
  fallback_->LogLost();
}

}  // namespace sluice
