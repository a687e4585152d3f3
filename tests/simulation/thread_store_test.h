// One io thread's part of the Redis store with two simulated nodes of a cluster. Replies arrive in
// orders that are rare with real nodes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/redis/slot.h"
#include "store/redis/thread_store.h"
#include "tests/simulation/network.h"
#include "tests/simulation/redis_server.h"
#include "tests/simulation/slot_map.h"

namespace sluice::simulation {

inline const Limit kTen = FixedWindow{.limit = 10, .window = std::chrono::hours(1)};
inline const Limit kHundred = FixedWindow{.limit = 100, .window = std::chrono::hours(1)};
inline const Limit kSlot = Concurrency{.limit = 1, .ttl = std::chrono::hours(1)};

class ThreadStoreTest : public testing::Test, private StoreListener {
 protected:
  // A check that records its position among the answers.
  class RecordingCheck final : public StoreCheck {
   public:
    RecordingCheck(ThreadStoreTest& test, std::vector<std::string> keys)
        : test_(test), keys_(std::move(keys)) {
      for (const std::string& key : keys_) {
        counters.push_back({.key = key, .limit = &kTen, .verdict = {}});
      }
      deadline = test.world_.now() + kTimeout;
    }

    int place = -1;
    bool undoes = false;  // calls Undo when the check is decided

   private:
    void OnDecided() override {
      place = test_.answers_++;
      if (undoes) test_.store_->Undo(*this);
    }

    ThreadStoreTest& test_;
    const std::vector<std::string> keys_;
  };

  static constexpr std::chrono::milliseconds kTimeout{10};

  ThreadStoreTest() {
    spdlog::set_level(spdlog::level::off);
    loop_.Run([this] {
      store_ = std::make_unique<redis::ThreadStore>(
          redis::ThreadStoreContext{.loop = loop_,
                                    .servers = servers_,
                                    .metrics = metrics_,
                                    .access = {},
                                    .clustered = true,
                                    .options = {.timeout = kTimeout, .listener = this},
                                    .on_layout_suspect = [] {},
                                    .layout_status = layout_status_});
      redis::Layout layout{.servers = {kAddresses[0], kAddresses[1]}, .owners = {}};
      for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
        layout.owners.push_back(OwnerOf(KeyIn(slot)));
      }
      store_->Use(layout);
    });
    RunFor(std::chrono::milliseconds(100));
  }
  ~ThreadStoreTest() override {
    loop_.Run([this] {
      store_->Stop();
      loop_.DisposeLater(std::move(store_));
    });
  }

  static std::string KeyIn(std::size_t slot) {
    static const std::vector<std::string> tags = [] {
      std::vector<std::string> found(redis::kSlots);
      for (std::size_t i = 0, missing = redis::kSlots; missing > 0; ++i) {
        const std::string tag = "{" + std::to_string(i) + "}";
        std::string& place = found[redis::SlotOf(tag)];
        missing -= place.empty() ? 1 : 0;
        if (place.empty()) place = tag;
      }
      return found;
    }();
    return "sluice:" + tags[slot] + "k";
  }
  std::uint16_t OwnerOf(const std::string& key) const {
    return static_cast<std::uint16_t>(slots_.OwnerOf(key));
  }
  // A key in the n-th slot of the node.
  std::string KeyAt(std::size_t node, int n = 0) const {
    for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
      if (OwnerOf(KeyIn(slot)) == node && n-- == 0) return KeyIn(slot);
    }
    return "";
  }

  RecordingCheck& Make(std::vector<std::string> keys) {
    return *checks_.emplace_back(std::make_unique<RecordingCheck>(*this, std::move(keys)));
  }
  RecordingCheck& Submit(std::vector<std::string> keys, bool in_order = false) {
    RecordingCheck& check = Make(std::move(keys));
    check.in_order = in_order;
    loop_.Run([&] { store_->Submit(check); });
    return check;
  }
  void MoveKey(const std::string& key) {
    redis_[0]->counters().MoveKey(key, redis_[1]->counters());
  }
  // Moves the key's slot to the second node. The store's layout does not change.
  void MoveSlot(const std::string& key) {
    slots_.BeginMove(key, 1);
    MoveKey(key);
    slots_.EndMove(key);
  }
  void RunFor(Duration duration) { world_.RunUntil(world_.now() + duration); }

  std::int64_t Used(std::size_t node, const std::string& key) const {
    const auto counter = redis_[node]->counters().by_key.find(key);
    if (counter == redis_[node]->counters().by_key.end()) return 0;
    return sluice::Used(counter->second.limit, counter->second.state);
  }

  const Address kAddresses[2] = {{.host = "simulated", .port = 7000, .unix_path = {}},
                                 {.host = "simulated", .port = 7001, .unix_path = {}}};
  const LinkOptions links_{.least_delay = Duration(10), .most_delay = Duration(20)};
  World world_{1};
  const Script script_{
      std::vector<Limit>{kTen, kHundred, kSlot,
                         FixedWindow{.limit = kMaxProduct, .window = std::chrono::seconds(1)}},
      nullptr};
  SlotMap slots_{world_, {kAddresses[0], kAddresses[1]}};
  const std::unique_ptr<RedisServer> redis_[2] = {
      std::make_unique<RedisServer>(world_, script_, kAddresses[0], &slots_),
      std::make_unique<RedisServer>(world_, script_, kAddresses[1], &slots_)};
  SimulatedLoop loop_{world_, [this](const Address& address) {
                        return redis_[address == kAddresses[0] ? 0 : 1]->Accept(links_);
                      }};
  MetricsRegistry metrics_;
  redis::Servers servers_{1, true, metrics_};
  redis::ServerStatus layout_status_{"simulated", 0};
  std::vector<std::unique_ptr<RecordingCheck>> checks_;
  int answers_ = 0;
  std::unique_ptr<redis::ThreadStore> store_;
  std::vector<std::pair<std::string, std::int64_t>> undone_;  // keys, and the units left
  std::int64_t grants_undone_ = 0;                            // units
  std::vector<std::string> undos_started_;
  std::vector<std::pair<LeaseId, Settled>> settled_;  // by Store::Settle
  std::vector<std::size_t> lost_;                     // parts
  std::vector<std::size_t> found_;                    // parts

 private:
  void OnPartLost(std::size_t part) override { lost_.push_back(part); }
  void OnPartFound(std::size_t part) override { found_.push_back(part); }
  void OnLateAnswer(const StoreCheck&) override {}
  void OnUndoStarted(const StoreCheck& undo) override {
    for (const CounterCheck& it : undo.counters) undos_started_.emplace_back(it.key);
  }
  void OnUndoEnded(const StoreCheck& undo) override {
    for (const CounterCheck& it : undo.counters) {
      undone_.emplace_back(it.key, it.verdict.remaining);
      grants_undone_ += it.grant.units;
    }
  }
  void OnSettled(const StoreCheck& settlement) override {
    settled_.emplace_back(settlement.lease->id, settlement.settled);
  }
};

}  // namespace sluice::simulation
