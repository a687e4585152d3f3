// A completion queue, the thread that polls it, and the calls that live on it.
//
//   gRPC ──RPC──▶ queue ──▶ thread: parse, match, ask the store ──▶ answer on the store's thread
//     ▲                       │ await the next RPC ◀── queue ◀── RPC over ◀─────────┘
//     └───────────────────────┘
//
// Start and Stop by one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include "base/thread.h"
#include "service/call_pool.h"
#include "service/queue_event.h"

namespace sluice {

class CallQueue {
 public:
  // Serves calls of `kinds`, one factory each. The server the queue belongs to must die first.
  CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, std::span<const CallFactory> kinds);

  // REQUIRES: the server has been started.
  void Start(std::string thread_name);

  // How many RPCs have come so far, how many of them are not over yet, but for streams, and how
  // many streams are open. Any thread.
  std::uint64_t requests() const { return tally_.requests.load(std::memory_order_relaxed); }
  std::uint64_t under_way() const {
    return requests() - tally_.over.load(std::memory_order_relaxed);
  }

  std::uint64_t streams() const { return tally_.streams.load(std::memory_order_relaxed); }

  // Sees to it that streams, also those to come, end as soon as what they took in is answered. Once
  // at most.
  void EndStreams();

  // Waits until every call is over. REQUIRES: the server has been shut down; till then the thread
  // must go on, for gRPC does its input and output on it.
  void Stop();

 private:
  void Run();
  void OnEndStreams(bool ok);

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  CallTally tally_;
  std::vector<std::unique_ptr<CallPool>> pools_;  // one per kind
  grpc::Alarm alarm_;
  EventOf<CallQueue, &CallQueue::OnEndStreams> end_streams_{*this};
  Thread thread_;
};

}  // namespace sluice
