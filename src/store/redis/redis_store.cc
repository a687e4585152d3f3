#include "store/redis/redis_store.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace sluice {
namespace {

using redis::Layout;

constexpr std::chrono::milliseconds kSettledAgain(10);  // between two polls of the queues

std::string NamesOf(const Layout& layout) {
  std::vector<std::string> names;
  for (const Address& address : layout.servers) names.push_back(LogText(address.ToString()));
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Aborts if TLS was requested but is not available.
redis::ServerAccess AccessFor(const RedisUrl& url, const RedisStore::Options& options) {
  if (url.tls && options.tls == nullptr) std::abort();
  return {.login = url.login,
          .password = options.password,
          .tls = url.tls ? options.tls : nullptr,
          .server_name = options.tls_server_name,
          .must_be_master = url.kind == RedisUrl::Kind::kSentinel};
}

}  // namespace

RedisStore::RedisStore(net::IoThreads& threads, const RedisUrl& url, const Options& options)
    : threads_(threads),
      access_(AccessFor(url, options)),
      servers_(threads.size(), url.kind != RedisUrl::Kind::kSingle,
               options.metrics != nullptr ? *options.metrics : unseen_metrics_),
      topology_status_(url.ToString(), 0, "the last known nodes are used until it is back"),
      fleet_status_(fmt::format("{}, list of servers", url.ToString()), 0,
                    "this server's share of the limits does not change until it is back"),
      single_(url.kind == RedisUrl::Kind::kSingle),
      parts_(threads.size()) {
  MetricsRegistry& metrics = options.metrics != nullptr ? *options.metrics : unseen_metrics_;
  threads_.RunOnEach([&](net::EpollLoop& loop) {
    parts_[loop.index()] = std::make_unique<redis::ThreadStore>(
        redis::ThreadStoreContext{.loop = loop,
                                  .servers = servers_,
                                  .metrics = metrics,
                                  .access = access_,
                                  .clustered = url.kind == RedisUrl::Kind::kCluster,
                                  .options = options,
                                  .on_layout_suspect = [this] { OnLayoutSuspect(); },
                                  .layout_status = topology_status_});
  });
  threads_.RunOn(0, [&](net::EpollLoop& loop) {
    topology_ = redis::MakeTopology(url, {.loop = loop,
                                          .status = topology_status_,
                                          .access = access_,
                                          .on_layout = [this](auto layout) { OnLayout(layout); }});
    topology_->Start();
  });
}

RedisStore::~RedisStore() { Stop(); }

bool RedisStore::WaitUntilSettled(SteadyTime deadline) {
  const auto all_settled = [this] {
    std::atomic<std::size_t> queued = 0;
    threads_.RunOnEach(
        [&](net::EpollLoop& loop) { queued += parts_[loop.index()]->queued_settles(); });
    return queued == 0;
  };
  while (!all_settled()) {
    if (SteadyNow() >= deadline) return false;
    std::this_thread::sleep_for(kSettledAgain);
  }
  return true;
}

// Nodes may still be flushed in the loop iteration that stops them, so they live until its end.
void RedisStore::Stop() {
  if (std::exchange(stopped_, true)) return;
  threads_.RunOnEach([this](net::EpollLoop& loop) {
    if (loop.index() == 0) {
      topology_->Stop();
      if (fleet_member_) fleet_member_->Stop();
    }
    auto part = std::move(parts_[loop.index()]);
    part->Stop();
    loop.DisposeLater(std::move(part));
  });
  // Runs in a later iteration: the nodes are gone, and all posted tasks have run.
  threads_.RunOnEach([this](net::EpollLoop& loop) {
    if (loop.index() != 0) return;
    fleet_member_.reset();
    topology_.reset();
  });
}

void RedisStore::OnLayout(const std::shared_ptr<const Layout>& layout) {
  {
    const MutexLock lock(mutex_);
    const std::string before = layout_ ? NamesOf(*layout_) : "";
    layout_ = layout;
    layout_changed_.NotifyAll();
    const std::string names = NamesOf(*layout);
    if (!single_ && names != before) {
      spdlog::info("redis {}: checks are decided by {}", topology_status_.name(), names);
    }
  }
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    threads_.loop(i).Post([this, i, layout] {
      if (parts_[i]) parts_[i]->Use(*layout);
    });
  }
}

void RedisStore::OnLayoutSuspect() {
  if (layout_suspect_.exchange(true)) return;
  threads_.loop(0).Post([this] {
    layout_suspect_ = false;
    if (topology_) topology_->OnLayoutSuspect();
  });
}

void RedisStore::JoinFleet(redis::FleetMember::OnView on_view) {
  threads_.RunOn(0, [&](net::EpollLoop& loop) {
    const auto server = [this] {
      return parts_[0] ? parts_[0]->AddressOf(redis::FleetMember::kKey) : std::nullopt;
    };
    // A node's state is logged once for all connections to it.
    redis::ServerStatus& status =
        single_ ? servers_.At(server().value_or(Address{})).status : fleet_status_;
    fleet_member_ = std::make_unique<redis::FleetMember>(
        redis::FleetMember::Context{
            .loop = loop, .access = access_, .server = server, .status = status},
        std::move(on_view));
  });
}

void RedisStore::Submit(StoreCheck& check) {
  if (redis::ThreadStore* const part = OfThisThread()) return part->Submit(check);
  check.undo_late = nullptr;
  check.Fail(StoreFailure::kUnreachable);
  check.OnDecided();
}

void RedisStore::Reset(StoreReset& reset) {
  if (redis::ThreadStore* const part = OfThisThread()) return part->Reset(reset);
  reset.Finish(StoreFailure::kUnreachable);
}

void RedisStore::Undo(const StoreCheck& check) {
  if (redis::ThreadStore* const part = OfThisThread()) part->Undo(check);
}

bool RedisStore::Settle(const StoreCheck& settle) {
  redis::ThreadStore* const part = OfThisThread();
  return part != nullptr && part->Settle(settle);
}

std::size_t RedisStore::PartOf(std::string_view key) const {
  const redis::ThreadStore* const part = OfThisThread();
  return part != nullptr ? part->PartOf(key) : 0;
}

redis::ThreadStore* RedisStore::OfThisThread() const {
  return parts_[net::Loop::Current()->index()].get();
}

bool RedisStore::WaitUntilReady(Duration at_most) {
  const SteadyTime deadline = SteadyNow() + at_most;
  std::shared_ptr<const Layout> layout;
  {
    const MutexLock lock(mutex_);
    layout_changed_.WaitUntil(mutex_, deadline,
                              [this]() SLUICE_REQUIRES(mutex_) { return layout_ != nullptr; });
    layout = layout_;
  }
  return layout && std::all_of(layout->servers.begin(), layout->servers.end(), [&](auto& address) {
           return servers_.At(address).status.WaitUntilReady(deadline);
         });
}

}  // namespace sluice
