// One RPC after the other on a completion queue: awaits one, serves it, and when it is over awaits
// the next. Lives in the CallPool of its kind.
//
// A thread of the queue, but for what is done in between to answer.
#pragma once

#include "service/queue_event.h"

namespace sluice {

class CallPool;

class QueuedCall {
 public:
  // How long an RPC lasts.
  enum class Kind {
    kUnary,   // till its answer, which is under way
    kStream,  // till one side ends it
    kProbe,   // as kUnary; a server that stops does not wait for probing to cease
  };

  // `pool` must outlive the call.
  explicit QueuedCall(CallPool& pool, Kind kind = Kind::kUnary) : pool_(pool), kind_(kind) {}
  virtual ~QueuedCall() = default;
  QueuedCall(const QueuedCall&) = delete;
  QueuedCall& operator=(const QueuedCall&) = delete;

  Kind kind() const { return kind_; }

  void AwaitRequest() { RequestNext(requested_.Arm()); }

  // Frees what belongs to the RPC that is over.
  virtual void LetGo() = 0;

  // The server is about to stop: an RPC that lasts should end. Also while there is none.
  virtual void Drain() {}

 protected:
  CallPool& pool() const { return pool_; }

  // The tag for the operation that ends the RPC. Nothing of this object may be touched after gRPC
  // has it: the queue's threads may already be awaiting the next RPC with it.
  void* EndOfRpc();

  // Instead, on a thread of the queue, for a call that has its own tag for that.
  void Leave() { OnOver(true); }

 private:
  // Asks gRPC for the next RPC, as new as the first.
  virtual void RequestNext(void* tag) = 0;

  // Sees to it that the RPC that came ends some time.
  virtual void Serve() = 0;

  void OnRequested(bool ok);
  void OnOver(bool ok);

  CallPool& pool_;
  const Kind kind_;
  EventOf<QueuedCall, &QueuedCall::OnRequested> requested_{*this};
  EventOf<QueuedCall, &QueuedCall::OnOver> over_{*this};
};

}  // namespace sluice
