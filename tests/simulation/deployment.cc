#include "tests/simulation/deployment.h"

#include <algorithm>
#include <utility>

#include "store/redis/slot.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kShards = 3;
constexpr std::size_t kSentinels = 2;

Address At(std::size_t port) {
  return {.host = "simulated", .port = static_cast<std::uint16_t>(port), .unix_path = {}};
}

}  // namespace

Deployment::Deployment(World& world, RedisUrl::Kind kind, const Script& script,
                       OnTakeOver on_take_over)
    : world_(world), script_(script), on_take_over_(std::move(on_take_over)) {
  url_.kind = kind;
  const std::size_t shards = kind == RedisUrl::Kind::kCluster ? kShards : 1;
  std::vector<Address> masters;
  for (std::size_t i = 0; i < shards; ++i) masters.push_back(At(7000 + i));
  if (kind == RedisUrl::Kind::kCluster) slots_ = std::make_unique<SlotMap>(world, masters);
  for (std::size_t i = 0; i < shards; ++i) {
    shards_.push_back({.master = &AddServer(), .standby = nullptr});
  }
  url_.addresses = masters;
  if (kind == RedisUrl::Kind::kSingle) return;
  for (Shard& shard : shards_) {
    shard.standby = &AddServer();
    shard.standby->Demote();
  }
  if (kind == RedisUrl::Kind::kCluster) return;
  url_.master = SentinelServer::kMaster;
  url_.addresses.clear();
  for (std::size_t i = 0; i < kSentinels; ++i) {
    url_.addresses.push_back(At(26379 + i));
    sentinels_.push_back(
        std::make_unique<SentinelServer>(world, url_.addresses.back(), masters.front()));
  }
}

RedisServer& Deployment::AddServer() {
  RedisServer& server = *servers_.emplace_back(
      std::make_unique<RedisServer>(world_, script_, At(7000 + servers_.size()), slots_.get()));
  server.NotifyOfResets([this](const auto& before, const auto& after) {
    on_take_over_(before, after, Loss::kReset);
  });
  return server;
}

std::shared_ptr<Link> Deployment::Connect(const Address& address, const LinkOptions& options) {
  for (auto& server : servers_) {
    if (server->address() == address) return server->Accept(options);
  }
  for (auto& sentinel : sentinels_) {
    if (sentinel->address() == address) return sentinel->Accept(options);
  }
  return nullptr;
}

void Deployment::Disturb() {
  if (!sentinels_.empty() && world_.OneIn(4)) {
    SentinelServer* const sentinel = sentinels_[world_.Below(kSentinels)].get();
    sentinel->Kill();
    return world_.After(world_.Between(Duration(0), milliseconds(80)),
                        [sentinel] { sentinel->Start(); });
  }
  if (slots_ && !world_.OneIn(3)) return BeginMove();
  if (shards_.front().standby != nullptr) FailOver(world_.Below(shards_.size()));
}

// If an operator requests the failover, the standby has all of the master's data. If the master
// dies, the standby may lack the latest data. A master that hangs cannot hand over, so it dies.
void Deployment::FailOver(std::size_t index) {
  Shard& shard = shards_[index];
  const bool moves = slots_ && slots_->moves(index);
  if (std::exchange(shard.fails_over, true)) return;
  const Duration lag = world_.Between(milliseconds(0), milliseconds(20));
  switch (shard.master->hangs() ? 1 : world_.Below(3)) {
    case 0: {
      RedisServer* const before = shard.master;
      Promote(index, before->counters());
      if (world_.OneIn(2)) before->CutConnections();
      return;
    }
    case 1:
      if (moves) return Lose(index, {});
      return world_.After(lag, [this, index, replicated = Script::Copy(shard.master->counters())] {
        Lose(index, replicated);
      });
    default:
      return Lose(index, {});
  }
}

void Deployment::Lose(std::size_t index, std::optional<Script::Counters> replicated) {
  shards_[index].master->Kill();
  world_.After(world_.Between(Duration(0), milliseconds(60)), [this, index, replicated] {
    Promote(index, replicated ? *replicated : shards_[index].master->counters());
  });
}

void Deployment::Promote(std::size_t index, Script::Counters counters) {
  Shard& shard = shards_[index];
  ++failovers_;
  on_take_over_(shard.master->counters(), counters, Loss::kFailover);
  std::swap(shard.master, shard.standby);
  if (slots_) slots_->Replace(index, shard.master->address());
  shard.master->Promote(std::move(counters));
  shard.standby->Demote();
  shard.fails_over = false;
  for (auto& sentinel : sentinels_) sentinel->SwitchTo(shard.master->address());
  world_.After(world_.Between(Duration(0), milliseconds(50)),
               [server = shard.standby] { server->Start(); });
}

void Deployment::BeginMove() {
  const std::size_t from = world_.Below(shards_.size());
  const std::size_t to = (from + 1 + world_.Below(shards_.size() - 1)) % shards_.size();
  const auto& held = shards_[from].master->counters().by_key;
  if (held.empty() || slots_->moves(from) || slots_->moves(to)) return;
  if (shards_[from].fails_over || shards_[to].fails_over) return;
  const auto any = std::next(held.begin(), static_cast<std::ptrdiff_t>(world_.Below(held.size())));
  ++moved_slots_;
  slots_->BeginMove(any->first, to);
  world_.After(world_.Between(Duration(0), milliseconds(10)),
               [this, key = any->first, from, to] { MoveOneKey(key, from, to); });
}

void Deployment::MoveOneKey(const std::string& of_slot, std::size_t from, std::size_t to) {
  Script::Counters& source = shards_[from].master->counters();
  const bool run = shards_[from].master->runs() && shards_[to].master->runs();
  const std::vector<std::string> left = source.KeysOf(redis::SlotOf(of_slot));
  if (run && left.empty()) return slots_->EndMove(of_slot);
  if (run) {
    const std::string& key = left[world_.Below(left.size())];
    source.MoveKey(key, shards_[to].master->counters());
    if (planted_ == Planted::kRecordsLeft) shards_[to].master->counters().records.erase(key);
    if (planted_ == Planted::kGrantsLeft) shards_[to].master->counters().ForgetGrants(key);
  }
  world_.After(world_.Between(Duration(0), milliseconds(10)),
               [this, of_slot, from, to] { MoveOneKey(of_slot, from, to); });
}

void Deployment::Heal() {
  for (auto& server : servers_) {
    server->Start();
    server->Vanish(false);
    server->FailScripts({});
    server->SetSlow(Duration(20));
    server->Resume();
  }
  for (auto& sentinel : sentinels_) sentinel->Start();
}

}  // namespace sluice::simulation
