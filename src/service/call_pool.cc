#include "service/call_pool.h"

#include <utility>

namespace sluice {

void CallPool::Start() {
  const MutexLock lock(mutex_);
  while (awaiting_ < kSpareCalls) AddCall();
}

// A call that comes meanwhile is drained here, or sees `draining` once it has been served.
void CallPool::Drain() {
  draining_.store(true);
  const MutexLock lock(mutex_);
  for (const auto& [call, owned] : calls_) owned->Drain();
}

void CallPool::OnRequest(const QueuedCall& call) {
  const bool stream = call.kind() == QueuedCall::Kind::kStream;
  if (stream) tally_.streams.fetch_add(1, std::memory_order_relaxed);
  if (stream) tally_.over.fetch_add(1, std::memory_order_relaxed);
  if (call.kind() != QueuedCall::Kind::kProbe) {
    tally_.requests.fetch_add(1, std::memory_order_relaxed);
  }
  const MutexLock lock(mutex_);
  --awaiting_;
  const bool may_add = !resting_.empty() || calls_.size() < kMaxCalls;
  if (awaiting_ < kSpareCalls && may_add) AddCall();
}

void CallPool::OnServed(const QueuedCall* call, QueuedCall::Kind kind, bool answered) {
  helper_.OnServed(answered);
  if (!draining() || kind != QueuedCall::Kind::kStream) return;
  const MutexLock lock(mutex_);
  if (const auto found = calls_.find(call); found != calls_.end()) found->second->Drain();
}

void CallPool::OnOver(QueuedCall& call) {
  if (call.kind() == QueuedCall::Kind::kStream) {
    tally_.streams.fetch_sub(1, std::memory_order_relaxed);
  } else if (call.kind() == QueuedCall::Kind::kUnary) {
    tally_.over.fetch_add(1, std::memory_order_relaxed);
  }
  call.LetGo();
  std::unique_ptr<QueuedCall> surplus;  // dies without the lock
  {
    const MutexLock lock(mutex_);
    if (awaiting_ < kSpareCalls) {
      ++awaiting_;
      return call.AwaitRequest();
    }
    surplus = Rest(call);
  }
  OnRetired();
}

void CallPool::OnRetired() {
  if (tally_.in_service.fetch_sub(1) == 1) tally_.all_retired.Notify();
}

void CallPool::AddCall() {
  QueuedCall* call = nullptr;
  if (resting_.empty()) {
    auto made = make_(*this);
    call = made.get();
    calls_.emplace(call, std::move(made));
  } else {
    call = resting_.back();
    resting_.pop_back();
  }
  tally_.in_service.fetch_add(1);
  ++awaiting_;
  call->AwaitRequest();
}

std::unique_ptr<QueuedCall> CallPool::Rest(QueuedCall& call) {
  if (resting_.size() < kMaxRestingCalls) {
    resting_.push_back(&call);
    return nullptr;
  }
  return std::move(calls_.extract(&call).mapped());
}

}  // namespace sluice
