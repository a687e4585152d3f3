#include "service/queued_call.h"

#include <cstdint>

#include "service/call_pool.h"

namespace sluice {
namespace {

// How many RPCs this thread has ended.
thread_local std::uint64_t ended_here = 0;

}  // namespace

void* QueuedCall::EndOfRpc() {
  ++ended_here;
  return over_.Arm();
}

// Once served, the RPC may be over, and this object gone, before Serve returns.
void QueuedCall::OnRequested(bool ok) {
  if (!ok) return pool_.OnRetired();  // the server has been shut down
  CallPool& pool = pool_;
  const Kind kind = kind_;
  pool.OnRequest(*this);
  const std::uint64_t ended_before = ended_here;
  Serve();
  pool.OnServed(this, kind, ended_here != ended_before);
}

void QueuedCall::OnOver(bool) { pool_.OnOver(*this); }

}  // namespace sluice
