#include "store/redis/breaker_probe.h"

#include <utility>

namespace sluice::redis {

BreakerProbe::BreakerProbe(net::Loop& loop, Breaker& breaker, Duration timeout, Owner& owner)
    : loop_(loop),
      breaker_(breaker),
      timeout_(timeout),
      owner_(owner),
      limit_(FixedWindow{.limit = kMaxProduct, .window = std::chrono::seconds(1)}),
      timer_(loop.timers(), [this] { OnTime(); }) {
  counters.push_back({.key = {}, .limit = &limit_, .verdict = {}});
}

void BreakerProbe::Start() {
  if (!timer_.active()) timer_.Start(loop_.now() + breaker_.ProbePause(loop_.Random()));
}

void BreakerProbe::OnTime() {
  if (breaker_.closed()) return owner_.OnBreakerClosed();
  Start();
  if (!owner_.CanSendProbe() || !breaker_.TakeProbe()) return;
  key_ = owner_.ProbeKey();
  counters.front().key = key_;
  deadline = loop_.now() + timeout_;
  auto pending = std::make_unique<PendingCheck>(static_cast<StoreCheck&>(*this));
  pending->is_probe = true;
  pending->deadline_extended =
      true;  // no extension: if this process is late, the next probe decides
  owner_.SendProbe(std::move(pending));
}

void BreakerProbe::OnDecided() {
  const bool answered_in_time = !failure();
  breaker_.OnProbe(answered_in_time);
  if (!answered_in_time) return;
  timer_.Cancel();
  owner_.OnBreakerClosed();
}

}  // namespace sluice::redis
