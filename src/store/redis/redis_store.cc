#include "store/redis/redis_store.h"

#include <algorithm>
#include <utility>

namespace sluice {

RedisStore::RedisStore(net::IoThreads& threads, const RedisUrl& url, const Options& options)
    : threads_(threads), clock_(options.clock), topology_(url), parts_(threads.size()) {
  MetricsRegistry& metrics = options.metrics != nullptr ? *options.metrics : unseen_metrics_;
  for (std::size_t node = 0; node < topology_.nodes(); ++node) {
    servers_.push_back(
        std::make_unique<redis::Server>(topology_.UrlOf(node).ToString(), threads.size(), metrics));
  }
  threads_.RunOnEach([&](net::EpollLoop& loop) {
    auto part = std::make_unique<Part>();
    for (std::size_t node = 0; node < topology_.nodes(); ++node) {
      part->nodes.push_back(std::make_unique<redis::Node>(loop, topology_.UrlOf(node),
                                                          *servers_[node], metrics, options));
    }
    parts_[loop.index()] = std::move(part);
  });
}

RedisStore::~RedisStore() { Stop(); }

// Nodes may be asked to flush in the turn that stops them, so they live to its end.
void RedisStore::Stop() {
  if (std::exchange(stopped_, true)) return;
  threads_.RunOnEach([this](net::EpollLoop& loop) {
    auto part = std::move(parts_[loop.index()]);
    for (const auto& node : part->nodes) node->Stop();
    if (part->fleet_member) part->fleet_member->Stop();
    loop.DisposeLater(std::move(part));
  });
  threads_.RunOnEach([](net::EpollLoop&) {});  // a later turn, so the nodes are gone
}

void RedisStore::JoinFleet(redis::FleetMember::OnView on_view) {
  const std::size_t node = topology_.NodeOf(redis::FleetMember::kKey);
  threads_.RunOn(0, [&](net::EpollLoop& loop) {
    parts_[0]->fleet_member = std::make_unique<redis::FleetMember>(
        loop, topology_.UrlOf(node), servers_[node]->status, clock_, std::move(on_view));
  });
}

void RedisStore::Submit(StoreCheck& check) {
  if (redis::Node* const node = NodeOf(check.counters.front().key)) return node->Submit(check);
  check.late = nullptr;
  check.Fail(StoreFailure::kUnreachable);
  check.OnDecided();
}

void RedisStore::Reset(StoreReset& reset) {
  if (redis::Node* const node = NodeOf(reset.keys.front())) return node->Reset(reset);
  reset.failure = StoreFailure::kUnreachable;
  reset.OnReset();
}

void RedisStore::Undo(const StoreCheck& check) {
  if (redis::Node* const node = NodeOf(check.counters.front().key)) node->Undo(check);
}

redis::Node* RedisStore::NodeOf(std::string_view key) const {
  const auto& part = parts_[net::Loop::Current()->index()];
  return part ? part->nodes[topology_.NodeOf(key)].get() : nullptr;
}

bool RedisStore::WaitUntilReady(Duration at_most) {
  const SteadyTime deadline = SteadyNow() + at_most;
  return std::all_of(servers_.begin(), servers_.end(),
                     [&](auto& server) { return server->status.WaitUntilReady(deadline); });
}

}  // namespace sluice
