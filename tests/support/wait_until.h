// WaitUntil: lets tests wait for conditions. Never sleep for a time that seems long enough: state
// the condition and a timeout.
#pragma once

#include <chrono>
#include <thread>

namespace sluice::test {

// Polls `condition` every few milliseconds. Returns false after `timeout`.
template <typename Condition>
bool WaitUntil(std::chrono::milliseconds timeout, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace sluice::test
