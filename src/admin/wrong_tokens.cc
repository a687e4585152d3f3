#include "admin/wrong_tokens.h"

#include <algorithm>

#include "base/hash.h"
#include "base/log.h"

namespace sluice {
namespace {

Counter& Refused(MetricsRegistry& metrics, const char* reason) {
  return metrics.CounterFor("sluice_admin_refused_total",
                            "Operator calls refused for their token, by reason.",
                            {{"reason", reason}});
}

}  // namespace

WrongTokens::WrongTokens(MetricsRegistry& metrics)
    : wrong_(Refused(metrics, "wrong_token")), slowed_(Refused(metrics, "slowed")) {}

SteadyTime& WrongTokens::PaidUntil(const net::Peer& peer) {
  const auto& name = peer.network.empty() ? peer.address : peer.network;
  return paid_until_[Hash(name) % paid_until_.size()];
}

bool WrongTokens::MayTry(const net::Peer& peer, SteadyTime now) {
  const MutexLock lock(mutex_);
  if (PaidUntil(peer) <= now + (kAtOnce - 1) * kPause) return true;
  slowed_.Increment();
  return false;
}

void WrongTokens::Note(const net::Peer& peer, SteadyTime now) {
  const MutexLock lock(mutex_);
  wrong_.Increment();
  SteadyTime& until = PaidUntil(peer);
  until = std::max(until, now) + kPause;
  if (now < next_log_) return;
  next_log_ = now + std::chrono::seconds(1);
  spdlog::warn("admin: {} has sent a wrong admin token (sluice_admin_refused_total counts all)",
               peer.address);
}

}  // namespace sluice
