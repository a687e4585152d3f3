#include "store/redis/breaker.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::redis {

Breaker::Breaker(std::string name, MetricsRegistry& metrics, const MetricLabels& labels)
    : name_(std::move(name)),
      shown_(metrics.GaugeFor("sluice_redis_breaker_state",
                              "State of the breaker: 0 closed, 1 half-open (a probe is in flight), "
                              "2 open. In states 1 and 2, on_store_failure of each rule decides.",
                              labels)),
      openings_(metrics.CounterFor("sluice_redis_breaker_openings_total",
                                   "How often the breaker has opened.")) {}

void Breaker::Show(bool shown) {
  const MutexLock lock(mutex_);
  shown ? shown_.Set(static_cast<double>(state_.load())) : shown_.Hide();
}

void Breaker::Open(std::string_view cause) {
  const MutexLock lock(mutex_);
  if (state_ != State::kClosed) return;
  openings_.Increment();
  spdlog::warn(
      "redis {}: breaker open: {}; on_store_failure of each rule decides until Redis answers in "
      "time again",
      name_, cause);
  failed_probes_ = 0;
  Enter(State::kOpen);
}

bool Breaker::TakeProbe() {
  const MutexLock lock(mutex_);
  if (state_ != State::kOpen) return false;
  Enter(State::kHalfOpen);
  return true;
}

void Breaker::OnProbe(bool answered_in_time) {
  const MutexLock lock(mutex_);
  if (state_ != State::kHalfOpen) return;
  if (!answered_in_time) ++failed_probes_;
  if (answered_in_time) spdlog::info("redis {}: breaker closed: answers in time again", name_);
  Enter(answered_in_time ? State::kClosed : State::kOpen);
}

Duration Breaker::ProbePause(std::uint64_t random) const {
  const int doublings = std::min(failed_probes_.load(std::memory_order_relaxed), kDoublings);
  const Duration half = kFirstPause * (1 << doublings) / 2;
  return half + Duration(random % static_cast<std::uint64_t>(half.count()));
}

void Breaker::Enter(State state) {
  state_.store(state, std::memory_order_relaxed);
  shown_.Set(static_cast<double>(state));
}

bool CallCounts::Count(bool failed, SteadyTime now) {
  if (now - since_ >= std::chrono::seconds(1)) {
    since_ = now;
    calls_ = failed_ = 0;
  }
  ++calls_;
  if (!failed) return false;
  ++failed_;
  return calls_ >= kFewest && 2 * failed_ > calls_;
}

}  // namespace sluice::redis
