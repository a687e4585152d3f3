// The shared store: counters in Redis, where every check is decided by one atomic script on Redis'
// own clock, so that all servers on one Redis share one quota.
//
// Each io thread has a part of its own: a connection to each node of Redis, and the checks
// submitted on that thread. A check is submitted, decided and handed back on one thread. Where the
// nodes are, the topology finds out, on io-0.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "metrics/metrics_registry.h"
#include "net/io_threads.h"
#include "store/redis/fleet_member.h"
#include "store/redis/part.h"
#include "store/redis/redis_url.h"
#include "store/redis/server.h"
#include "store/redis/topology.h"
#include "store/store.h"

namespace sluice {

class RedisStore final : public Store {
 public:
  using Options = redis::NodeOptions;

  // Begins to connect at once and does not stop trying; checks fail with kUnreachable while there
  // is no connection. `threads` must run until Stop has returned. Not on an io thread.
  RedisStore(net::IoThreads& threads, const RedisUrl& url, const Options& options);

  // Stops, if Stop was not called.
  ~RedisStore() override;

  // Fails everything that waits and hands it back, on its io thread; what is submitted from then on
  // fails with kUnreachable. Not on an io thread.
  void Stop();

  // On an io thread.
  void Submit(StoreCheck& check) override;
  void Reset(StoreReset& reset) override;
  void Undo(const StoreCheck& check) override;

  // Reports this server to its fleet from now on; `on_view` is called on io-0. At most once. Not on
  // an io thread.
  void JoinFleet(redis::FleetMember::OnView on_view);

  // Waits until all connections are ready, at most so long. Returns whether they are. Not on an io
  // thread.
  bool WaitUntilReady(Duration at_most);

 private:
  // The part of this thread; null after Stop.
  redis::Part* PartOfThisThread() const;
  static redis::Access AccessFor(const RedisUrl& url, const Options& options);
  // On io-0.
  void OnLayout(const std::shared_ptr<const redis::Layout>& layout) SLUICE_EXCLUDES(mutex_);
  // On any io thread.
  void OnDoubt();

  net::IoThreads& threads_;
  const Clock* const clock_;        // see NodeOptions
  MetricsRegistry unseen_metrics_;  // if options name none
  const redis::Access access_;
  redis::Servers servers_;
  redis::ServerStatus topology_status_;
  redis::ServerStatus fleet_status_;
  const bool single_;
  std::atomic<bool> doubted_ = false;          // a task on its way to io-0 tells the topology
  std::unique_ptr<redis::Topology> topology_;  // of io-0
  std::unique_ptr<redis::FleetMember> fleet_member_;  // of io-0; null unless it has joined
  std::vector<std::unique_ptr<redis::Part>> parts_;   // by io thread; that thread's own
  bool stopped_ = false;

  Mutex mutex_;
  CondVar layout_changed_;
  std::shared_ptr<const redis::Layout> layout_ SLUICE_GUARDED_BY(mutex_);  // null: none known yet
};

}  // namespace sluice
