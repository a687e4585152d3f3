#include "service/call_queue.h"

#include <chrono>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/send_together.h"

namespace sluice {
namespace {

// The longest that an answer or a check is held back by a thread that always finds another event,
// but for the event it is at.
constexpr auto kMaxHold = std::chrono::milliseconds(1);

// How often a thread asks in vain before it takes it that nothing is there: asked once, gRPC looks
// at one connection, which may have brought no event, though others have.
constexpr int kMaxMisses = 3;

}  // namespace

CallQueue::CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                     std::span<const CallFactory> kinds, Store& store)
    : queue_(std::move(queue)), store_(store) {
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
  while (HappenNext()) HappenPresent();
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
  std::optional<SendTogether> together;
  if (helper_.wanted()) together.emplace();
  const Store::Burst burst(store_);
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec at_once = gpr_inf_past(GPR_CLOCK_MONOTONIC);
  const SteadyTime end = SteadyNow() + kMaxHold;
  for (int misses = 0; misses < kMaxMisses;) {
    if (queue_->AsyncNext(&tag, &ok, at_once) != grpc::CompletionQueue::GOT_EVENT) {
      ++misses;
      continue;
    }
    misses = 0;
    QueueEvent::Happen(tag, ok);
    if (SteadyNow() >= end) return;
  }
}

}  // namespace sluice
