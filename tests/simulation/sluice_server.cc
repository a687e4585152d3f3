#include "tests/simulation/sluice_server.h"

#include <utility>

namespace sluice::simulation {
namespace {

const Address kRedis{.host = "simulated", .port = 6379, .unix_path = {}};

}  // namespace

SluiceServer::SluiceServer(World& world, Connector to_redis, std::shared_ptr<const RuleIndex> rules,
                           const Share& share, Duration redis_timeout)
    : world_(world),
      clock_(world),
      fallback_(clock_, share),
      memory_(clock_, {.shards = 1}),
      loop_(world, std::move(to_redis)),
      servers_(1, false, metrics_),
      limiter_({.store = store_, .local = memory_, .fallback = fallback_, .metrics = metrics_},
               {.store_timeout = redis_timeout, .deny_cache = true}),
      charge_back_(limiter_),
      service_(limiter_),
      shared_(MethodsOf(service_), {.address = {}, .max_calls = kMaxCalls, .metrics = &metrics_},
              {}),
      charge_timer_(loop_.timers(), [this] { ChargeBackLater(); }) {
  limiter_.SetRules(std::move(rules));
  loop_.Run([&] {
    part_ =
        std::make_unique<redis::Part>(redis::PartContext{.loop = loop_,
                                                         .servers = servers_,
                                                         .metrics = metrics_,
                                                         .access = {},
                                                         .options = {.timeout = redis_timeout,
                                                                     .silence = 5 * redis_timeout,
                                                                     .late_answers = &fallback_,
                                                                     .metrics = &metrics_},
                                                         .on_doubt = [] {}});
    part_->Use({.servers = {kRedis}, .owners = {}});
    shard_ = std::make_unique<rpc::http2::Shard>(shared_, loop_, 1, nullptr);
    ChargeBackLater();
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

void SluiceServer::ChargeBackLater() {
  charge_back_.OnTime();
  charge_timer_.Start(loop_.now() + ChargeBack::kEvery);
}

void SluiceServer::Accept(std::shared_ptr<Link> link) {
  loop_.Deliver([this, link = std::move(link)] {
    shared_.connections.TryAdd(1'000'000);
    shard_->AddConnection(loop_.Carry(link, net::FlushStage::kCallers), {});
  });
}

bool SluiceServer::Stop() {
  loop_.Run([this] {
    charge_timer_.Cancel();
    shard_->CloseConnections();
  });
  loop_.Run([this] {
    part_->Stop();
    loop_.DisposeLater(std::move(part_));
  });
  loop_.Run([this] { shard_.reset(); });
  return shared_.free_calls == static_cast<std::int64_t>(kMaxCalls) &&
         shared_.unfinished_bytes == 0;
}

}  // namespace sluice::simulation
