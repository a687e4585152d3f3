// Detects floods on one connection: resets of young calls, PING and SETTINGS.
//
// Loop thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/clock.h"
#include "rpc/http2/shared_state.h"

namespace sluice::rpc::http2 {

// A token bucket that detects floods of events.
class RateGuard {
 public:
  constexpr RateGuard(double burst, double per_second)
      : burst_(burst), per_second_(per_second), left_(burst) {}

  // Counts an event. Returns false if it exceeds the rate and the burst.
  bool Allow(SteadyTime now) {
    using Seconds = std::chrono::duration<double>;
    left_ = std::min(burst_, left_ + Seconds(now - last_).count() * per_second_);
    last_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  // Refills the bucket.
  void Reset() { left_ = burst_; }

 private:
  const double burst_;
  const double per_second_;
  double left_;
  SteadyTime last_{};
};

class FloodGuard {
 public:
  // Many resets of calls younger than kYoung are an attack: a legitimate caller does not combine
  // such a short deadline with immediate retries.
  static constexpr std::chrono::milliseconds kYoung{1};

  // These count an event, and return false if the peer floods the connection.
  bool CountPing(SteadyTime now) { return Count(controls_, now, "too_many_pings"); }
  bool CountSettings(SteadyTime now) { return Count(controls_, now, "too_many_settings"); }
  bool CountReset(SteadyTime now) {
    return Count(resets_, now, "too_many_resets", Refusal::kRapidReset);
  }

  // A part of a response was sent. The peer may answer it with control frames.
  void OnResponse() { controls_.Reset(); }

  // Records that the peer floods the connection in another way.
  void Accuse(std::string_view kind) { kind_ = kind; }

  bool flooded() const { return !kind_.empty(); }
  std::string_view kind() const { return kind_; }  // for GOAWAY
  Refusal reason() const { return reason_; }

 private:
  bool Count(RateGuard& guard, SteadyTime now, std::string_view kind,
             Refusal reason = Refusal::kFlood) {
    if (guard.Allow(now)) return true;
    kind_ = kind;
    reason_ = reason;
    return false;
  }

  // The peer's resets of young calls, and nghttp2's resets of calls in which the peer broke the
  // protocol.
  RateGuard resets_{1'000, 200};
  // PING and SETTINGS between responses. Clients with keepalive send a PING every few seconds;
  // clients that measure bandwidth send one per response.
  RateGuard controls_{20, 1};
  std::string_view kind_;
  Refusal reason_ = Refusal::kFlood;
};

}  // namespace sluice::rpc::http2
