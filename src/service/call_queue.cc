#include "service/call_queue.h"

#include <utility>

namespace sluice {

CallQueue::CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue, CheckService& service,
                     Limiter& limiter)
    : queue_(std::move(queue)), service_(service), limiter_(limiter) {}

void CallQueue::Start(std::string thread_name) {
  while (awaiting_ < kSpareCalls) AddCall();
  thread_ = Thread(std::move(thread_name), [this] { Run(); });
}

void CallQueue::Stop() {
  {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [this]() SLUICE_REQUIRES(mutex_) { return all_retired_; });
  }
  queue_->Shutdown();
  thread_.Join();
}

void CallQueue::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    auto& call = *static_cast<CheckLimitCall*>(tag);
    if (call.finished()) {
      finished_.fetch_add(1, std::memory_order_relaxed);
      AwaitRequest(call);
    } else if (ok) {
      OnRequest(call);
    } else {
      OnRetired();
    }
  }
}

void CallQueue::OnRequest(CheckLimitCall& call) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  --awaiting_;
  if (awaiting_ < kSpareCalls && calls_.size() < kMaxCalls) AddCall();
  call.Serve();
}

void CallQueue::AddCall() {
  calls_.push_back(std::make_unique<CheckLimitCall>(service_, *queue_, limiter_));
  AwaitRequest(*calls_.back());
}

void CallQueue::AwaitRequest(CheckLimitCall& call) {
  ++awaiting_;
  call.AwaitRequest();
}

void CallQueue::OnRetired() {
  if (++retired_ < calls_.size()) return;
  MutexLock lock(mutex_);
  all_retired_ = true;
  changed_.NotifyAll();
}

}  // namespace sluice
