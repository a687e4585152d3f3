// A completion queue, the thread that polls it, and the calls that live on it.
//
//   gRPC ──RPC──▶ queue ──▶ thread: parse, match, ask the store ──▶ answer on the store's thread
//     ▲                       │ await the next RPC ◀── queue ◀── RPC over ◀─────────┘
//     └───────────────────────┘
//
// Start and Stop by one owner; all that is private on the thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "service/check_limit_call.h"

namespace sluice {

class CallQueue {
 public:
  // `service` and `limiter` must outlive the queue. The server the queue belongs to must die first.
  CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, CheckService& service,
            Limiter& limiter);

  // REQUIRES: the server has been started.
  void Start(std::string thread_name);

  // How many RPCs have come so far, and how many of them are not over yet. Any thread.
  std::uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  std::uint64_t under_way() const { return requests() - finished_.load(std::memory_order_relaxed); }

  // Waits until every call is over. REQUIRES: the server has been shut down; till then the thread
  // must go on, for gRPC does its input and output on it.
  void Stop();

 private:
  // Calls that wait for an RPC are kept at this many at least, so that none has to wait for one.
  static constexpr std::size_t kSpareCalls = 32;
  // The most calls. Past that, RPCs wait in gRPC.
  static constexpr std::size_t kMaxCalls = 16384;

  void Run();
  void AddCall();
  void AwaitRequest(CheckLimitCall& call);
  void OnRequest(CheckLimitCall& call);
  void OnRetired();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  CheckService& service_;
  Limiter& limiter_;

  std::vector<std::unique_ptr<CheckLimitCall>> calls_;
  std::size_t awaiting_ = 0;  // of calls_, those that wait for an RPC
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::uint64_t> finished_ = 0;
  std::size_t retired_ = 0;  // of calls_, those that will get no RPC any more

  Mutex mutex_;
  CondVar changed_;
  bool all_retired_ SLUICE_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace sluice
