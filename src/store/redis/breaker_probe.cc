#include "store/redis/breaker_probe.h"

#include <utility>

namespace sluice::redis {

BreakerProbe::Check::Check(BreakerProbe& probe)
    : probe_(probe), limit_(FixedWindow{.limit = kMaxProduct, .window = std::chrono::seconds(1)}) {
  counters.push_back({.key = {}, .limit = &limit_, .verdict = {}});
}

void BreakerProbe::Check::Send(std::string key) {
  key_ = std::move(key);
  counters.front().key = key_;
  deadline = probe_.loop_.now() + probe_.timeout_;
  auto pending = std::make_unique<PendingCheck>(*this);
  pending->is_probe = true;
  pending->deadline_extended = true;  // if this process is late, the next probe decides
  probe_.owner_.SendProbe(std::move(pending));
}

BreakerProbe::BreakerProbe(net::Loop& loop, Breaker& breaker, Duration timeout, Owner& owner)
    : loop_(loop),
      breaker_(breaker),
      timeout_(timeout),
      owner_(owner),
      timer_(loop.timers(), [this] { OnTime(); }) {}

void BreakerProbe::Start() {
  if (!timer_.active()) timer_.Start(loop_.now() + breaker_.ProbePause(loop_.Random()));
}

void BreakerProbe::OnTime() {
  if (breaker_.closed()) return owner_.OnBreakerClosed();
  Start();
  if (owner_.CanSendProbe() && breaker_.TakeProbe()) check_.Send(owner_.ProbeKey());
}

void BreakerProbe::OnProbed(bool answered_in_time) {
  breaker_.OnProbe(answered_in_time);
  if (!answered_in_time) return;
  timer_.Cancel();
  owner_.OnBreakerClosed();
}

}  // namespace sluice::redis
