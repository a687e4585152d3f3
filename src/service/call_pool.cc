#include "service/call_pool.h"

namespace sluice {

void CallPool::Start() {
  const MutexLock lock(mutex_);
  while (awaiting_ < kSpareCalls) AddCall();
}

// A call that comes meanwhile is drained here, or sees `draining` once it has been served.
void CallPool::Drain() {
  draining_.store(true);
  const MutexLock lock(mutex_);
  for (const auto& call : calls_) call->Drain();
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
  if (awaiting_ < kSpareCalls && calls_.size() < kMaxCalls) AddCall();
}

void CallPool::OnOver(QueuedCall& call) {
  if (call.kind() == QueuedCall::Kind::kStream) {
    tally_.streams.fetch_sub(1, std::memory_order_relaxed);
  } else if (call.kind() == QueuedCall::Kind::kUnary) {
    tally_.over.fetch_add(1, std::memory_order_relaxed);
  }
  {
    const MutexLock lock(mutex_);
    ++awaiting_;
  }
  call.AwaitRequest();
}

void CallPool::OnRetired() {
  if (tally_.in_service.fetch_sub(1) == 1) tally_.all_retired.Notify();
}

void CallPool::AddCall() {
  calls_.push_back(make_(*this));
  tally_.in_service.fetch_add(1);
  ++awaiting_;
  calls_.back()->AwaitRequest();
}

}  // namespace sluice
