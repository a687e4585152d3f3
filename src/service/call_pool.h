// The calls of one kind on one completion queue: as many as RPCs of that kind are under way, some
// that wait for the next ones, and some that rest. gRPC takes those that wait in turn, all of them;
// so that few calls are used over and over, whose memory is in the caches, few wait.
//
// For the threads of the queue, but for what CallTally lets others read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include <grpcpp/completion_queue.h>

#include "base/mutex.h"
#include "base/notification.h"
#include "service/queue_helper.h"
#include "service/queued_call.h"

namespace sluice {

// Makes a call of one kind.
using CallFactory = std::function<std::unique_ptr<QueuedCall>(CallPool& pool)>;

// Of all calls on a queue, whatever their kind.
struct CallTally {
  // RPCs, probes left out. Any thread may read these.
  std::atomic<std::uint64_t> requests = 0;  // that came
  std::atomic<std::uint64_t> over = 0;      // of these, streams as soon as they come
  std::atomic<std::uint64_t> streams = 0;   // that are open
  // Calls that may still get an RPC; none from the moment on that the server has been shut down and
  // every RPC is over.
  std::atomic<std::size_t> in_service = 0;
  Notification all_retired;
};

class CallPool {
 public:
  // `queue`, `tally` and `helper` must outlive the pool.
  CallPool(grpc::ServerCompletionQueue& queue, CallFactory make, CallTally& tally,
           QueueHelper& helper)
      : queue_(queue), make_(std::move(make)), tally_(tally), helper_(helper) {}

  grpc::ServerCompletionQueue& queue() const { return queue_; }

  // Awaits the first RPCs. REQUIRES: the server has been started.
  void Start() SLUICE_EXCLUDES(mutex_);

  // Ends the RPCs that last, and those that come from now on.
  void Drain() SLUICE_EXCLUDES(mutex_);
  bool draining() const { return draining_.load(); }

  // For the calls. An RPC came to one that awaited it; it has been served, and its answer is under
  // way or not (`call` may be gone already); the RPC of `call` is over; one will get none any more.
  void OnRequest(const QueuedCall& call) SLUICE_EXCLUDES(mutex_);
  void OnServed(const QueuedCall* call, QueuedCall::Kind kind, bool answered)
      SLUICE_EXCLUDES(mutex_);
  void OnOver(QueuedCall& call) SLUICE_EXCLUDES(mutex_);
  void OnRetired();

 private:
  // So many calls wait for an RPC, so that none has to wait for one.
  static constexpr std::size_t kSpareCalls = 32;
  // The most calls that rest. The others, which a burst of RPCs has left, are let go.
  static constexpr std::size_t kMaxRestingCalls = 1024;
  // The most calls. Past that, RPCs wait in gRPC.
  static constexpr std::size_t kMaxCalls = 16384;

  void AddCall() SLUICE_REQUIRES(mutex_);
  // The call, if it is one too many.
  std::unique_ptr<QueuedCall> Rest(QueuedCall& call) SLUICE_REQUIRES(mutex_);

  grpc::ServerCompletionQueue& queue_;
  const CallFactory make_;
  CallTally& tally_;
  QueueHelper& helper_;
  std::atomic<bool> draining_ = false;

  Mutex mutex_;
  std::unordered_map<const QueuedCall*, std::unique_ptr<QueuedCall>> calls_
      SLUICE_GUARDED_BY(mutex_);
  std::vector<QueuedCall*> resting_ SLUICE_GUARDED_BY(mutex_);  // of calls_
  // Of calls_, those that wait for an RPC.
  std::size_t awaiting_ SLUICE_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice
