// The calls of one kind on one completion queue: as many as RPCs of that kind are under way, and
// some that wait for the next ones.
//
// The queue's thread, but for what CallTally lets others read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <grpcpp/completion_queue.h>

#include "base/notification.h"
#include "service/queued_call.h"

namespace sluice {

// Makes a call of one kind.
using CallFactory = std::function<std::unique_ptr<QueuedCall>(CallPool& pool)>;

// Of all calls on a queue, whatever their kind.
struct CallTally {
  // RPCs. Any thread may read these.
  std::atomic<std::uint64_t> requests = 0;  // that came
  std::atomic<std::uint64_t> over = 0;      // of these, streams as soon as they come
  std::atomic<std::uint64_t> streams = 0;   // that are open
  // Calls that may still get an RPC; none from the moment on that the server has been shut down and
  // every RPC is over.
  std::size_t in_service = 0;
  Notification all_retired;
};

class CallPool {
 public:
  // `queue` and `tally` must outlive the pool.
  CallPool(grpc::ServerCompletionQueue& queue, CallFactory make, CallTally& tally)
      : queue_(queue), make_(std::move(make)), tally_(tally) {}

  grpc::ServerCompletionQueue& queue() const { return queue_; }

  // Awaits the first RPCs. REQUIRES: the server has been started.
  void Start();

  // Ends the RPCs that last, and those that come from now on.
  void Drain();
  bool draining() const { return draining_; }

  // For the calls. An RPC came to one that awaited it; the RPC of `call` is over; one will get none
  // any more.
  void OnRequest(const QueuedCall& call);
  void OnOver(QueuedCall& call);
  void OnRetired();

 private:
  // Calls that wait for an RPC are kept at this many at least, so that none has to wait for one.
  static constexpr std::size_t kSpareCalls = 32;
  // The most calls. Past that, RPCs wait in gRPC.
  static constexpr std::size_t kMaxCalls = 16384;

  void AddCall();
  void AwaitRequest(QueuedCall& call);

  grpc::ServerCompletionQueue& queue_;
  const CallFactory make_;
  CallTally& tally_;
  std::vector<std::unique_ptr<QueuedCall>> calls_;
  std::size_t awaiting_ = 0;  // of calls_, those that wait for an RPC
  bool draining_ = false;
};

}  // namespace sluice
