#include "service/call_pool.h"

namespace sluice {

void CallPool::Start() {
  while (awaiting_ < kSpareCalls) AddCall();
}

void CallPool::Drain() {
  draining_ = true;
  for (const auto& call : calls_) call->Drain();
}

void CallPool::OnRequest(const QueuedCall& call) {
  const bool stream = call.kind() == QueuedCall::Kind::kStream;
  if (stream) tally_.streams.fetch_add(1, std::memory_order_relaxed);
  if (stream) tally_.over.fetch_add(1, std::memory_order_relaxed);
  tally_.requests.fetch_add(1, std::memory_order_relaxed);
  --awaiting_;
  if (awaiting_ < kSpareCalls && calls_.size() < kMaxCalls) AddCall();
}

void CallPool::OnOver(QueuedCall& call) {
  if (call.kind() == QueuedCall::Kind::kStream) {
    tally_.streams.fetch_sub(1, std::memory_order_relaxed);
  } else {
    tally_.over.fetch_add(1, std::memory_order_relaxed);
  }
  AwaitRequest(call);
}

void CallPool::OnRetired() {
  if (--tally_.in_service == 0) tally_.all_retired.Notify();
}

void CallPool::AddCall() {
  calls_.push_back(make_(*this));
  ++tally_.in_service;
  AwaitRequest(*calls_.back());
}

void CallPool::AwaitRequest(QueuedCall& call) {
  ++awaiting_;
  call.AwaitRequest();
}

}  // namespace sluice
