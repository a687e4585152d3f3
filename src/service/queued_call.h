// One RPC after the other on a completion queue: awaits one, serves it, and when it is over awaits
// the next. Lives in the CallPool of its kind.
//
// The queue's thread, but for what is done in between to answer.
#pragma once

#include "service/queue_event.h"

namespace sluice {

class CallPool;

class QueuedCall {
 public:
  // `pool` must outlive the call.
  explicit QueuedCall(CallPool& pool) : pool_(pool) {}
  virtual ~QueuedCall() = default;
  QueuedCall(const QueuedCall&) = delete;
  QueuedCall& operator=(const QueuedCall&) = delete;

  void AwaitRequest() { RequestNext(requested_.Arm()); }

 protected:
  CallPool& pool() const { return pool_; }

  // The tag for the operation that ends the RPC. Nothing of this object may be touched after gRPC
  // has it: the queue's thread may already be awaiting the next RPC with it.
  void* EndOfRpc() { return over_.Arm(); }

 private:
  // Asks gRPC for the next RPC, as new as the first.
  virtual void RequestNext(void* tag) = 0;

  // Sees to it that the RPC that came ends some time.
  virtual void Serve() = 0;

  void OnRequested(bool ok);
  void OnOver(bool ok);

  CallPool& pool_;
  EventOf<QueuedCall, &QueuedCall::OnRequested> requested_{*this};
  EventOf<QueuedCall, &QueuedCall::OnOver> over_{*this};
};

}  // namespace sluice
