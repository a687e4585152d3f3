// Finds out in the background whether a Redis whose breaker is open answers in time and accepts a
// write.
//
// Loop thread only.
#pragma once

#include <functional>
#include <string>

#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/breaker.h"
#include "store/redis/pending_check.h"

namespace sluice::redis {

class BreakerProbe {
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
  // Charges a separate counter, so that no real one is charged. This counter expires soon.
  class Check final : public StoreCheck {
   public:
    explicit Check(BreakerProbe& probe);
    void Send(std::string key);

   private:
    void OnDecided() override { probe_.OnProbed(!failure()); }

    BreakerProbe& probe_;
    std::string key_;
    const Limit limit_;
  };

  void OnTime();
  void OnProbed(bool answered_in_time);

  net::Loop& loop_;
  Breaker& breaker_;
  const Duration timeout_;
  Owner& owner_;
  Check check_{*this};
  net::Timer timer_;
};

}  // namespace sluice::redis
