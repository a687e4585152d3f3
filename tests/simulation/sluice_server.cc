#include "tests/simulation/sluice_server.h"

#include <utility>

#include "admin/reset_limit.h"

namespace sluice::simulation {

SluiceServer::SluiceServer(World& world, Connector to_redis, const Options& options)
    : clock_(world),
      fallback_(clock_, options.share),
      listener_(fallback_, options.planted),
      memory_(clock_, {.shards = 1}),
      loop_(world, std::move(to_redis)),
      servers_(1, options.redis.kind != RedisUrl::Kind::kSingle, metrics_),
      limiter_({.store = store_, .local = memory_, .fallback = fallback_, .metrics = metrics_},
               {.store_timeout = kRedisTimeout, .deny_cache = true}),
      service_(limiter_),
      shared_{.methods = MethodsOf(service_),
              .options = {.address = {}, .max_calls = kMaxCalls, .metrics = &metrics_},
              .times = {}},
      charge_timer_(loop_.timers(),
                    [this] {
                      fallback_.Reconcile();
                      ChargeLater();
                    }),
      grant_timer_(loop_.timers(), [this] { ReturnGrants(); }),
      share_timer_(loop_.timers(), [this] { ChangeShare(); }),
      fleet_size_(options.share.of),
      reported_(options.share) {
  limiter_.SetRules(options.rules);
  loop_.Run([&] {
    StartStore(options.redis);
    shard_ = std::make_unique<rpc::http2::Shard>(shared_, loop_);
    fallback_.SetOnPending([this] { loop_.Post([this] { ChargeLater(); }); });
    limiter_.grants().SetOnUse([this] { loop_.Post([this] { ReturnGrants(); }); });
    share_timer_.Start(loop_.now() + kChangeShareEvery);
  });
}

// One reset. Owns itself.
class SluiceServer::ResetOf final : public ResetCall {
 public:
  using ResetCall::ResetCall;

 private:
  void OnReset(Result<std::vector<std::string>>) override { delete this; }
};

void SluiceServer::Reset(const Subject& subject) {
  loop_.Deliver([this, subject] {
    if (stopped_) return;
    CheckRequest request;
    request.domain = "shop";
    request.attributes = {
        {"endpoint", subject.endpoint}, {"user", subject.user}, {"team", subject.team}};
    (new ResetOf(limiter_))->Start(std::move(request), {});
  });
}

void SluiceServer::Drain() {
  loop_.Deliver([this] {
    if (stopped_) return;
    limiter_.grants().Close();
    limiter_.grants().ReturnDue();
  });
}

// Starts the store in the same way as RedisStore.
void SluiceServer::StartStore(const RedisUrl& redis) {
  redis::ServerAccess access;
  access.must_be_master = redis.kind == RedisUrl::Kind::kSentinel;
  part_ = std::make_unique<redis::ThreadStore>(
      redis::ThreadStoreContext{.loop = loop_,
                                .servers = servers_,
                                .metrics = metrics_,
                                .access = access,
                                .clustered = redis.kind == RedisUrl::Kind::kCluster,
                                .options = {.timeout = kRedisTimeout,
                                            .silence = 5 * kRedisTimeout,
                                            .listener = &listener_,
                                            .metrics = &metrics_},
                                .on_layout_suspect = [this] { AskForLayout(); },
                                .layout_status = topology_status_});
  const auto use = [this](std::shared_ptr<const redis::Layout> layout) {
    loop_.Post([this, layout = std::move(layout)] {
      if (part_) part_->Use(*layout);
    });
  };
  topology_ = redis::MakeTopology(
      redis, {.loop = loop_, .status = topology_status_, .access = access, .on_layout = use});
  topology_->Start();
}

void SluiceServer::AskForLayout() {
  loop_.Post([this] {
    if (topology_) topology_->OnLayoutSuspect();
  });
}

SluiceServer::~SluiceServer() {
  if (shard_) Stop();
}

rpc::Methods SluiceServer::MethodsOf(RateLimiterService& service) {
  rpc::Methods methods;
  service.AddTo(methods);
  return methods;
}

void SluiceServer::ChargeLater() {
  if (stopped_ || charge_timer_.active() || !fallback_.HasPending()) return;
  charge_timer_.Start(loop_.now() + Fallback::kReconcileEvery);
}

void SluiceServer::ReturnGrants() {
  if (stopped_) return;
  limiter_.grants().ReturnDue();
  if (limiter_.grants().in_use()) grant_timer_.Start(loop_.now() + GrantTable::kReturnEvery);
}

void SluiceServer::ChangeShare() {
  reported_.of = reported_.of == fleet_size_ ? fleet_size_ + 1 : fleet_size_;
  static_cast<void>(fallback_.SetShare(reported_));
  share_timer_.Start(loop_.now() + kChangeShareEvery);
}

void SluiceServer::Accept(std::shared_ptr<Link> link) {
  loop_.Deliver([this, link = std::move(link)] {
    if (stopped_) return link->CloseWire();
    connection_count_.TryAdd();
    connections_.Add(
        rpc::http2::MakeConnection(*shard_, loop_.Carry(link, net::FlushStage::kCallers), true));
  });
}

bool SluiceServer::Stop() {
  stopped_ = true;
  loop_.Run([this] {
    charge_timer_.Cancel();
    grant_timer_.Cancel();
    share_timer_.Cancel();
    connections_.CloseAll();
  });
  loop_.Run([this] {
    topology_->Stop();
    part_->Stop();
    loop_.DisposeLater(std::move(part_));
  });
  loop_.Run([this] {
    topology_.reset();
    shard_.reset();
  });
  return shared_.free_calls == static_cast<std::int64_t>(kMaxCalls) && shared_.buffered_bytes == 0;
}

std::int64_t SluiceServer::unknown_units() {
  const MetricLabels labels{{"fate", "unknown"}};
  return static_cast<std::int64_t>(
      metrics_.CounterFor("sluice_fallback_units_total", "", labels).Value());
}

bool SluiceServer::IsInDoubt() {
  return metrics_.CounterFor("sluice_redis_unknown_outcomes_total", "").Value() > 0 ||
         metrics_.CounterFor("sluice_redis_lost_undos_total", "").Value() > 0;
}

}  // namespace sluice::simulation
