#include "service/call_queue.h"

#include <utility>

namespace sluice {

CallQueue::CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                     std::span<const CallFactory> kinds)
    : queue_(std::move(queue)) {
  for (const CallFactory& make : kinds) {
    pools_.push_back(std::make_unique<CallPool>(*queue_, make, tally_, helper_));
  }
}

void CallQueue::Start(const std::string& thread_name) {
  for (const auto& pool : pools_) pool->Start();
  thread_ = Thread(thread_name, [this] { Run(); });
  second_thread_ = Thread(thread_name + "+", [this] { Help(); });
}

// Calls belong to the queue's threads: an alarm long due brings one of them here.
void CallQueue::EndStreams() {
  alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), end_streams_.Arm());
}

void CallQueue::OnEndStreams(bool) {
  for (const auto& pool : pools_) pool->Drain();
}

void CallQueue::Stop() {
  tally_.all_retired.Wait();
  queue_->Shutdown();
  thread_.Join();
  helper_.Stop();
  second_thread_.Join();
}

void CallQueue::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) QueueEvent::Happen(tag, ok);
}

void CallQueue::Help() {
  void* tag = nullptr;
  bool ok = false;
  while (helper_.WaitUntilWanted()) {
    while (helper_.wanted()) {
      if (!queue_->Next(&tag, &ok)) return;
      QueueEvent::Happen(tag, ok);
    }
  }
}

}  // namespace sluice
