// The shared store: counters in Redis. One atomic script decides every check on Redis' own clock,
// so all servers that use one Redis enforce each limit together.
//
// Each io thread has its own ThreadStore: a connection to each node of Redis, and the checks
// submitted on that thread. A check is submitted, decided and returned on one thread. The topology
// locates the nodes, on io-0.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "metrics/metrics_registry.h"
#include "net/io_threads.h"
#include "store/redis/fleet_member.h"
#include "store/redis/redis_url.h"
#include "store/redis/server_state.h"
#include "store/redis/thread_store.h"
#include "store/redis/topology.h"
#include "store/store.h"

namespace sluice {

class RedisStore final : public Store {
 public:
  using Options = redis::NodeOptions;

  // Starts to connect immediately and retries forever; checks fail with kUnreachable while there is
  // no connection. `threads` must run until Stop has returned. Not on an io thread.
  RedisStore(net::IoThreads& threads, const RedisUrl& url, const Options& options);

  // Stops, if Stop was not called.
  ~RedisStore() override;

  // Fails all waiting checks on their io threads; later submissions fail with kUnreachable. Not on
  // an io thread.
  void Stop();

  // On an io thread.
  void Submit(StoreCheck& check) override;
  void Reset(StoreReset& reset) override;
  void Undo(const StoreCheck& check) override;
  bool Settle(const StoreCheck& settle) override;
  std::size_t PartOf(std::string_view key) const override;

  // Adds this server to its fleet: see FleetMember. `on_view` is called on io-0. REQUIRES: called
  // at most once, and not on an io thread.
  void JoinFleet(redis::FleetMember::OnView on_view);

  // Waits until all connections are ready, for at most `at_most`. Returns whether all are ready.
  // Not on an io thread.
  bool WaitUntilReady(Duration at_most);

  // Waits until no settlement of a lease awaits its answer, or until `deadline`. Returns false if
  // `deadline` came first. REQUIRES: called before Stop, and not on an io thread.
  bool WaitUntilSettled(SteadyTime deadline);

 private:
  // The store of this thread; null after Stop.
  redis::ThreadStore* OfThisThread() const;
  // On io-0.
  void OnLayout(const std::shared_ptr<const redis::Layout>& layout) SLUICE_EXCLUDES(mutex_);
  // On any io thread.
  void OnLayoutSuspect();

  net::IoThreads& threads_;
  MetricsRegistry unseen_metrics_;  // used if options has none
  const redis::ServerAccess access_;
  redis::Servers servers_;
  redis::ServerStatus topology_status_;
  redis::ServerStatus fleet_status_;
  const bool single_;
  std::atomic<bool> layout_suspect_ = false;          // a task to notify the topology is queued
  std::unique_ptr<redis::Topology> topology_;         // of io-0
  std::unique_ptr<redis::FleetMember> fleet_member_;  // of io-0; null before JoinFleet
  std::vector<std::unique_ptr<redis::ThreadStore>> parts_;  // by io thread; used only there
  bool stopped_ = false;

  Mutex mutex_;
  CondVar layout_changed_;
  std::shared_ptr<const redis::Layout> layout_ SLUICE_GUARDED_BY(mutex_);  // null: not known yet
};

}  // namespace sluice
