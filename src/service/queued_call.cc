#include "service/queued_call.h"

#include "service/call_pool.h"

namespace sluice {

void QueuedCall::OnRequested(bool ok) {
  if (!ok) return pool_.OnRetired();  // the server has been shut down
  pool_.OnRequest(*this);
  Serve();
  if (pool_.draining() && kind_ == Kind::kStream) Drain();
}

void QueuedCall::OnOver(bool) { pool_.OnOver(*this); }

}  // namespace sluice
