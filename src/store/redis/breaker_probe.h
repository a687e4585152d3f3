// Finds out in the background whether a Redis node with an open breaker answers in time and
// accepts a write.
//
// Loop thread only.
#pragma once

#include <string>

#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/breaker.h"
#include "store/redis/pending_check.h"

namespace sluice::redis {

// The object is itself the check that it sends. The check charges a separate counter, which expires
// soon, so that no real counter is charged.
class BreakerProbe final : private StoreCheck {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual bool CanSendProbe() const = 0;
    // The key of a counter that the probe may charge.
    virtual std::string ProbeKey() = 0;
    virtual void SendProbe(PendingPtr probe) = 0;
    // The breaker is closed, by this probe or by a probe of another thread.
    virtual void OnBreakerClosed() = 0;
  };

  // `timeout`: how long a probe may take. The references must outlive this.
  BreakerProbe(net::Loop& loop, Breaker& breaker, Duration timeout, Owner& owner);

  // Waits for the breaker to close, and sends probes meanwhile.
  void Start();
  // Makes the next probe due now.
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
