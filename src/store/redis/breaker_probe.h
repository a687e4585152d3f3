// Finds out in the background whether a Redis whose breaker is open answers in time and accepts a
// write.
//
// Loop thread only.
#pragma once

#include <string>

#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/breaker.h"
#include "store/redis/pending_check.h"

namespace sluice::redis {

// Is the check that it sends, which charges a separate counter, so that no real one is charged.
// This counter expires soon.
class BreakerProbe final : private StoreCheck {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual bool CanSendProbe() const = 0;
    // A counter that may be charged by the probe.
    virtual std::string ProbeKey() = 0;
    virtual void SendProbe(PendingPtr probe) = 0;
    // The breaker is closed, by this probe or another one.
    virtual void OnBreakerClosed() = 0;
  };

  // `timeout`: how long a probe may take. The references must outlive this.
  BreakerProbe(net::Loop& loop, Breaker& breaker, Duration timeout, Owner& owner);

  // Waits for the breaker to close, and sends probes meanwhile.
  void Start();
  // The next probe is due now.
  void Hurry() { timer_.Start(loop_.now()); }
  void Stop() { timer_.Cancel(); }

 private:
  void OnTime();
  void OnDecided() override;

  net::Loop& loop_;
  Breaker& breaker_;
  const Duration timeout_;
  Owner& owner_;
  std::string key_;
  const Limit limit_;
  net::Timer timer_;
};

}  // namespace sluice::redis
