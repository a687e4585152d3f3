#include "rpc/http2/call_admission.h"

namespace sluice::rpc::http2 {

bool CallAdmission::Admit(const Call& call, bool is_probe) {
  // The maximum number of open calls of probes on one connection. A client that watches the
  // server's health has one such call.
  constexpr int kMaxProbes = 16;
  if (is_probe ? probes_ >= kMaxProbes : !TakePlace(call)) {
    loop_.Count(Refusal::kCalls);
    return false;
  }
  if (is_probe) ++probes_;
  used_ = true;
  return true;
}

// If at least half of the places are free, no peer can have more than its share, so shares are not
// checked.
bool CallAdmission::TakePlace(const Call& call) {
  if (only_probes_) return false;
  const ServerOptions& options = loop_.options();
  std::atomic<std::int64_t>& free = loop_.shared().free_calls;
  const std::int64_t left = free.load(std::memory_order_relaxed);
  if (left < static_cast<std::int64_t>(options.max_calls / 2)) {
    if (!PeerUse::IsWithinShare(peer_.calls + 1, left)) return false;
    if (options.knows_caller && !options.knows_caller(call)) return false;
  }
  if (free.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    free.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  ++peer_.calls;
  return true;
}

void CallAdmission::Release(bool is_probe) {
  if (is_probe) {
    --probes_;
    return;
  }
  --peer_.calls;
  loop_.shared().free_calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sluice::rpc::http2
