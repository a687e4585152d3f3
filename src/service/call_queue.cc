#include "service/call_queue.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/send_together.h"

namespace sluice {
namespace {

// The longest that an answer is held back by a thread that always finds another event, but for the
// event it is at.
constexpr auto kMaxHold = std::chrono::microseconds(200);

}  // namespace

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
  while (HappenNext()) {
    if (helper_.wanted()) HappenPresent();
  }
}

void CallQueue::Help() {
  while (helper_.WaitUntilWanted()) {
    while (helper_.wanted()) {
      if (!HappenNext()) return;
      HappenPresent();
    }
  }
}

bool CallQueue::HappenNext() {
  void* tag = nullptr;
  bool ok = false;
  if (!queue_->Next(&tag, &ok)) return false;
  QueueEvent::Happen(tag, ok);
  return true;
}

void CallQueue::HappenPresent() {
  const SendTogether together;
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec at_once = gpr_inf_past(GPR_CLOCK_MONOTONIC);
  const SteadyTime end = SteadyNow() + kMaxHold;
  while (queue_->AsyncNext(&tag, &ok, at_once) == grpc::CompletionQueue::GOT_EVENT) {
    QueueEvent::Happen(tag, ok);
    if (SteadyNow() >= end) return;
  }
}

}  // namespace sluice
