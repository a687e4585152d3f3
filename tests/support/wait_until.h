// WaitUntil: how tests wait for a world that runs by itself. Never sleep for "long enough": say
// what must come true, and by when at the latest.
#pragma once

#include <chrono>
#include <thread>

namespace sluice::test {

// Asks `condition` every few milliseconds; returns whether it held within `timeout`.
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
