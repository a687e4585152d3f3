// A completion queue, the threads that poll it, and the calls that live on it.
//
//   gRPC ──RPC──▶ queue ──▶ thread: parse, match, ask the store ──▶ answer on the store's thread
//     ▲                       │ await the next RPC ◀── queue ◀── RPC over ◀─────────┘
//     └───────────────────────┘
//
// A second thread does the same, while QueueHelper says that it is of use.
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
#include "service/queue_helper.h"
#include "store/store.h"

namespace sluice {

class CallQueue {
 public:
  // Serves calls of `kinds`, one factory each, which submit checks to `store`; it must outlive the
  // queue. The server the queue belongs to must die first.
  CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, std::span<const CallFactory> kinds,
            Store& store);

  // The second thread's name is the first's with a "+". REQUIRES: the server has been started.
  void Start(const std::string& thread_name);

  // How many RPCs have come so far, but for probes, how many of them are not over yet, but for
  // streams, and how many streams are open. Any thread.
  std::uint64_t requests() const { return tally_.requests.load(std::memory_order_relaxed); }
  std::uint64_t under_way() const {
    return requests() - tally_.over.load(std::memory_order_relaxed);
  }

  std::uint64_t streams() const { return tally_.streams.load(std::memory_order_relaxed); }

  // Sees to it that streams, also those to come, end as soon as what they took in is answered. Once
  // at most.
  void EndStreams();

  // Waits until every call is over. REQUIRES: the server has been shut down; till then the threads
  // must go on, for gRPC does its input and output on them.
  void Stop();

 private:
  void Run();
  void Help();
  void OnEndStreams(bool ok);

  // Waits for an event and lets it happen. False: there will be none any more.
  bool HappenNext();
  // Lets those happen that are there: what they ask the store is a burst. While calls are answered
  // at once, the answers leave together; the store sees to those of calls that it decides later.
  void HappenPresent();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  CallTally tally_;
  QueueHelper helper_;
  Store& store_;
  std::vector<std::unique_ptr<CallPool>> pools_;  // one per kind
  grpc::Alarm alarm_;
  EventOf<CallQueue, &CallQueue::OnEndStreams> end_streams_{*this};
  Thread thread_;
  Thread second_thread_;
};

}  // namespace sluice
