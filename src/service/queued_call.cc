#include "service/queued_call.h"

#include "service/call_pool.h"

namespace sluice {

void QueuedCall::OnRequested(bool ok) {
  if (!ok) return pool_.OnRetired();  // the server has been shut down
  pool_.OnRequest();
  Serve();
}

void QueuedCall::OnOver(bool) { pool_.OnOver(*this); }

}  // namespace sluice
