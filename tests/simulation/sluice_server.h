// One io thread of a sluiced in the simulation, from gRPC to Redis: the real code on a simulated
// loop.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "limiter/fallback.h"
#include "limiter/limiter.h"
#include "match/rule_index.h"
#include "metrics/metrics_registry.h"
#include "net/loop_connections.h"
#include "rpc/http2/connection.h"
#include "rpc/http2/shard.h"
#include "service/rate_limiter_service.h"
#include "store/memory/memory_store.h"
#include "store/redis/redis_url.h"
#include "store/redis/thread_store.h"
#include "store/redis/topology.h"
#include "tests/simulation/network.h"
#include "tests/simulation/planted.h"
#include "tests/simulation/rules.h"

namespace sluice::simulation {

class SluiceServer {
 public:
  struct Options {
    RedisUrl redis;
    std::shared_ptr<const RuleIndex> rules;
    Share share;
    Planted planted = Planted::kNothing;
  };
  SluiceServer(World& world, Connector to_redis, const Options& options);

  static constexpr std::chrono::milliseconds kRedisTimeout{10};
  ~SluiceServer();

  // A caller connects.
  void Accept(std::shared_ptr<Link> link);

  void SetRules(std::shared_ptr<const RuleIndex> rules) { limiter_.SetRules(std::move(rules)); }

  // The state of a counter that the server remembers.
  std::optional<SeenState> Seen(std::string_view key) const { return fallback_.states.Find(key); }

  void Stall(Duration duration) { loop_.Stall(duration); }

  // Resets the counters of a subject, in Redis and here.
  void Reset(const Subject& subject);

  // The server is about to end: it returns the grants that it holds.
  void Drain();

  // Stops permanently. Returns false if state of a call is left.
  bool Stop();

  // Units admitted in an outage for checks that were in flight. The store may also have charged
  // them.
  std::int64_t unknown_units();
  // Whether the server could not learn the outcome of a check, or could not undo a check.
  bool IsInDoubt();
  // Whether the server admitted units that the store may also have charged.
  bool HasUnknownCharges() const { return limiter_.metrics().units_unknown.Value() > 0; }

 private:
  static constexpr std::size_t kMaxCalls = 10'000;

  // The part of RedisStore on one loop.
  class PartStore final : public Store {
   public:
    explicit PartStore(std::unique_ptr<redis::ThreadStore>& part) : part_(part) {}
    void Submit(StoreCheck& check) override { part_->Submit(check); }
    void Reset(StoreReset& reset) override { part_->Reset(reset); }
    void Undo(const StoreCheck& check) override { part_->Undo(check); }
    bool Settle(const StoreCheck& settle) override { return part_->Settle(settle); }
    std::size_t PartOf(std::string_view key) const override { return part_->PartOf(key); }

   private:
    std::unique_ptr<redis::ThreadStore>& part_;
  };
  class ResetOf;

  // Passes all events to Fallback, except those that a planted fault suppresses.
  class Listener final : public StoreListener {
   public:
    Listener(Fallback& fallback, Planted planted) : fallback_(fallback), planted_(planted) {}
    void OnPartLost(std::size_t part) override { fallback_.OnPartLost(part); }
    void OnPartFound(std::size_t part) override {
      if (planted_ != Planted::kGracePeriodsLate) fallback_.OnPartFound(part);
    }
    void OnLateAnswer(const StoreCheck& check) override { fallback_.OnLateAnswer(check); }
    void OnUndoStarted(const StoreCheck& undo) override {
      if (planted_ != Planted::kUndoneLearned) fallback_.OnUndoStarted(undo);
    }
    void OnUndoEnded(const StoreCheck& undo) override {
      if (planted_ != Planted::kUndoneLearned) fallback_.OnUndoEnded(undo);
    }
    void OnSettled(const StoreCheck& settlement) override { fallback_.OnSettled(settlement); }

   private:
    Fallback& fallback_;
    const Planted planted_;
  };

  static rpc::Methods MethodsOf(RateLimiterService& service);
  void StartStore(const RedisUrl& redis);
  void AskForLayout();
  void ChargeLater();
  void ReturnGrants();
  void ChangeShare();

  // As if another server often joined the fleet and left it.
  static constexpr std::chrono::milliseconds kChangeShareEvery{30};

  MetricsRegistry metrics_;
  const WorldClock clock_;
  Fallback fallback_;
  Listener listener_;
  MemoryStore memory_;
  SimulatedLoop loop_;
  redis::Servers servers_;
  redis::ServerStatus topology_status_{"simulated", 0};
  std::unique_ptr<redis::Topology> topology_;
  std::unique_ptr<redis::ThreadStore> part_;
  PartStore store_{part_};
  Limiter limiter_;
  RateLimiterService service_;
  rpc::http2::SharedState shared_;
  std::unique_ptr<rpc::http2::Shard> shard_;
  net::ConnectionCount connection_count_{SIZE_MAX};
  net::LoopConnections connections_{loop_, connection_count_, [] {}};
  net::Timer charge_timer_;
  net::Timer grant_timer_;
  net::Timer share_timer_;
  const std::int64_t fleet_size_;
  Share reported_;  // this server's share, as its last report showed it
  bool stopped_ = false;
};

}  // namespace sluice::simulation
