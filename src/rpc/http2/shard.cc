#include "rpc/http2/shard.h"

#include <algorithm>
#include <utility>

#include "rpc/http2/connection.h"

namespace sluice::rpc::http2 {
namespace {

// Streams that are kept without a need.
constexpr std::size_t kKeptStreams = 256;
// Bounds the time that an iteration spends on trimming.
constexpr std::size_t kMaxTrimmed = 4'096;
constexpr std::chrono::seconds kTrimInterval(1);

// A full shard closes this part of its connections at a time, since finding them reads all.
constexpr std::size_t kRoomPart = 64;

// Connections that have no place. A further one replaces the oldest.
constexpr std::size_t kMostWithoutPlace = 16;

}  // namespace

Shard::Shard(SharedState& shared, net::Loop& loop, std::size_t loops, CompareLoads compare_loads)
    : shared_(shared),
      loop_(loop),
      compare_loads_(std::move(compare_loads)),
      quota_(shared, loops),
      balance_timer_(loop.timers(), [this] { Rebalance(); }),
      trim_timer_(loop.timers(), [this] { TrimPools(); }) {
  for (const Method& method : shared.methods) {
    pools_.emplace(method.path, std::make_unique<CallPool>(*this, method));
  }
}

Shard::~Shard() { PublishOpenCalls(); }

CallPool* Shard::FindMethod(std::string_view path) {
  if (last_pool_ != nullptr && last_pool_->method().path == path) return last_pool_;
  const auto found = pools_.find(path);
  if (found == pools_.end()) return nullptr;
  last_pool_ = found->second.get();
  return last_pool_;
}

bool Shard::MayInflate() {
  const SteadyTime now = loop_.now();
  if (std::exchange(inflate_iteration_, now) != now) inflated_before_ = inflater_.total();
  return inflater_.total() - inflated_before_ <= kInflatedBytesPerIteration;
}

PeerUse& Shard::FindPeer(const std::string& network) {
  PeerUse& peer = peers_[network];
  ++peer.connections;
  return peer;
}

void Shard::ForgetPeer(const std::string& network) {
  const auto peer = peers_.find(network);
  if (--peer->second.connections == 0) peers_.erase(peer);
}

Stream& Shard::TakeStream() {
  if (streams_.size() > kKeptStreams && !trim_timer_.active()) {
    trim_timer_.Start(loop_.now() + kTrimInterval);
  }
  return streams_.Take([] { return std::make_unique<Stream>(); });
}

// Each stream has at most one call, so the pools of calls shrink with the pool of streams.
void Shard::TrimPools() {
  streams_.Trim(kMaxTrimmed);
  for (const auto& [path, pool] : pools_) pool->Trim(kMaxTrimmed);
  if (streams_.size() > kKeptStreams) trim_timer_.Start(loop_.now() + kTrimInterval);
}

void Shard::AddConnection(net::TransportPtr transport, net::IoThreads::Place place,
                          bool has_place) {
  if (!has_place && without_place_.size() >= kMostWithoutPlace) without_place_.front()->Close();
  connections_.push_back(
      std::make_unique<Connection>(*this, std::move(transport), std::move(place), has_place));
  Connection& connection = *connections_.back();
  if (!has_place) without_place_.push_back(&connection);
  connection.place = connections_.size() - 1;
  connection.Start();
  if (draining_) connection.Drain();
}

void Shard::RemoveConnection(Connection& connection) {
  if (!connection.has_place()) std::erase(without_place_, &connection);
  const std::size_t place = connection.place;
  std::swap(connections_[place], connections_.back());
  connections_[place]->place = place;
  loop_.DisposeLater(std::move(connections_.back()));
  connections_.pop_back();
}

bool Shard::MakeRoom(std::string_view newcomer) {
  std::vector<Connection*> connections;
  std::vector<net::Occupant> occupants;
  for (const auto& connection : connections_) {
    if (!connection->has_place()) continue;
    connections.push_back(connection.get());
    occupants.push_back(connection->AsOccupant());
  }
  const auto victims = net::ChooseVictims(occupants, newcomer,
                                          std::max<std::size_t>(connections.size() / kRoomPart, 1));
  for (const std::size_t i : victims) {
    Count(Refusal::kReplaced);
    connections[i]->Close();
  }
  return !victims.empty();
}

// Backward, since draining a connection may remove it from the list.
void Shard::Drain() {
  draining_ = true;
  for (std::size_t i = connections_.size(); i > 0; --i) connections_[i - 1]->Drain();
}

void Shard::CloseConnections() {
  while (!connections_.empty()) connections_.back()->Close();
}

// Starts the timer only while there is traffic, so that idle loops do not wake up.
void Shard::OnIteration() {
  PublishOpenCalls();
  if (balance_timer_.active() || connections_.size() < 2 || !compare_loads_) return;
  balance_timer_.Start(loop_.now() + LoopBalancer::kInterval);
}

void Shard::Rebalance() {
  std::vector<std::uint64_t> calls;
  for (const auto& connection : connections_) calls.push_back(connection->TakeCallCount());
  const auto excess = balance_.ConnectionToMove(loop_.now(), compare_loads_(), calls);
  if (!excess) return;
  shared_.metrics.moved_connections.Increment();
  connections_[*excess]->Drain();
}

void Shard::PublishOpenCalls() {
  const std::size_t open = streams_.in_use();
  if (open == published_calls_) return;
  shared_.metrics.open_calls.Add(static_cast<double>(open) - static_cast<double>(published_calls_));
  published_calls_ = open;
}

}  // namespace sluice::rpc::http2
