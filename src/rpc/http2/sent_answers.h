// Recently sent answers whose loss matters. If the caller gave up before it received the answer,
// its reset arrives within a round trip after the answer was sent.
//
// Loop thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>

#include "base/clock.h"

namespace sluice::rpc::http2 {

class SentAnswers {
 public:
  // Calls `on_lost` if the caller still resets the stream.
  void Add(std::int32_t stream, SteadyTime now, std::function<void()> on_lost) {
    while (!answers_.empty() &&
           (now - answers_.front().sent > kRoundTrip || answers_.size() >= kMaxAnswers)) {
      answers_.pop_front();
    }
    answers_.push_back({.stream = stream, .sent = now, .on_lost = std::move(on_lost)});
  }

  // The caller has reset the stream.
  void OnReset(std::int32_t stream) {
    const auto lost = std::find_if(answers_.begin(), answers_.end(),
                                   [&](const Answer& it) { return it.stream == stream; });
    if (lost == answers_.end()) return;
    const auto on_lost = std::move(lost->on_lost);
    answers_.erase(lost);
    on_lost();
  }

 private:
  static constexpr std::chrono::seconds kRoundTrip{1};
  static constexpr std::size_t kMaxAnswers = 1'024;

  struct Answer {
    std::int32_t stream = 0;
    SteadyTime sent;
    std::function<void()> on_lost;
  };
  std::list<Answer> answers_;  // oldest first
};

}  // namespace sluice::rpc::http2
