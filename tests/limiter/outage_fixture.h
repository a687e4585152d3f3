// A fleet of servers whose store can fail, with a clock that the test controls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/limiter/fixture.h"

namespace sluice::test {

// One server of a fleet: everything except the store and the clock.
class FleetServer {
 public:
  FleetServer(Store& store, const Clock& clock, const Share& share)
      : fallback(clock, share),
        local_(clock, {}),
        limiter_({.store = store, .local = local_, .fallback = fallback, .metrics = metrics_}, {}),
        call_(limiter_) {}

  void SetRule(const Rule& rule) {
    Domain domain;
    domain.name = "shop";
    domain.rules = {rule};
    limiter_.SetRules(RuleIndex::Build({domain}, {}).value());
  }

  CheckAnswer Ask(Mode mode = Mode::kConsume, std::int64_t cost = 1, bool charge_decides = false) {
    call_.request.Clear();
    call_.request.charge_decides = charge_decides;
    call_.request.domain = "shop";
    call_.request.cost = cost;
    call_.request.demand = {.mode = mode};
    call_.Start();
    return call_.answer.value().value();
  }
  CheckAnswer Ask(const std::string& user) {
    call_.request.Clear();
    call_.request.domain = "shop";
    call_.request.attributes = {{"user", user}};
    call_.Start();
    return call_.answer.value().value();
  }
  CheckAnswer Peek() { return Ask(Mode::kPeek); }

  std::int64_t TakeAll() {
    std::int64_t taken = 0;
    while (Ask().decision == Decision::kAllowed) ++taken;
    return taken;
  }

  void ChargeBack() { fallback.Reconcile(); }
  // Charges often enough that the store gets all fallback charges that it accepts.
  void ChargeBackAll() {
    for (int i = 0; i < 10; ++i) ChargeBack();
  }

  std::uint64_t UnitsOfFate(const std::string& fate) {
    return metrics_.CounterFor("sluice_fallback_units_total", "", {{"fate", fate}}).Value();
  }

  Fallback fallback;

 private:
  MemoryStore local_;
  MetricsRegistry metrics_;
  Limiter limiter_;
  Call call_;
};

struct Outage {
  const char* name;
  Limit limit;
  std::int64_t size;
};

inline const Outage kOutages[] = {
    {"fixed_window", FixedWindow{.limit = 100, .window = std::chrono::hours(1)}, 100},
    {"sliding_log", SlidingLog{.limit = 100, .window = std::chrono::hours(1)}, 100},
    {"sliding_window", SlidingWindow{.limit = 100, .window = std::chrono::hours(1)}, 100},
    {"token_bucket", TokenBucket{.rate = 1, .period = std::chrono::hours(1), .burst = 100}, 100},
    {"leaky_bucket", LeakyBucket{.rate = 1, .period = std::chrono::hours(1), .queue = 99}, 100},
};

class OutageTest : public testing::Test {
 protected:
  void Start(const Limit& limit, std::int64_t servers = 3) {
    store_ = std::make_unique<FragileStore>(clock_);
    fleet_.clear();
    rule_ = {};
    rule_.name = "r";
    rule_.limits.limits = {limit};
    for (std::int64_t rank = 0; rank < servers; ++rank) Add(Share::OfServer(servers, rank));
  }
  FleetServer& Add(const Share& share) {
    fleet_.push_back(std::make_unique<FleetServer>(*store_, clock_, share));
    fleet_.back()->SetRule(rule_);
    return *fleet_.back();
  }
  FleetServer& server(std::size_t rank) { return *fleet_[rank]; }

  // Checks fail, and the servers lose their connections to the store.
  void Lose() {
    store_->failing = StoreFailure::kUnreachable;
    for (const auto& it : fleet_) it->fallback.OnPartLost(0);
  }
  // The connections stay, but checks fail.
  void Stall(StoreFailure failure) { store_->failing = failure; }
  void Recover() { store_->failing.reset(); }

  std::int64_t TakeAll() {
    std::int64_t taken = 0;
    for (const auto& server : fleet_) taken += server->TakeAll();
    return taken;
  }

  ManualClock clock_{Time(std::chrono::seconds(1'000'000))};
  std::unique_ptr<FragileStore> store_;
  Rule rule_;
  std::vector<std::unique_ptr<FleetServer>> fleet_;
};

}  // namespace sluice::test
