// Measures how long a cache line takes from the first core to the last one: about 40 ns if the
// cores share a cache, otherwise 160 ns and more. A host may move the cores of a virtual machine at
// any time. If the cores do not share a cache, cooperating threads are about half as fast.
//
//   build/release/bench/core_distance
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "base/thread.h"

namespace sluice::bench {
namespace {

constexpr int kBursts = 5;
constexpr int kRoundTrips = 50'000;

void RunOn(unsigned core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores) == 0) return;
  std::fprintf(stderr, "core_distance: core %u does not exist, or this program may not use it\n",
               core);
  std::exit(1);
}

// The mean time that the cache line takes in one direction, in one burst.
double Nanoseconds(unsigned first, unsigned last) {
  alignas(128) std::atomic<int> ball = 0;
  Thread other("other", [&] {
    RunOn(last);
    for (int i = 1; i < 2 * kRoundTrips; i += 2) {
      while (ball.load(std::memory_order_acquire) != i) continue;
      ball.store(i + 1, std::memory_order_release);
    }
  });
  RunOn(first);
  const SteadyTime begin = SteadyNow();
  for (int i = 0; i < 2 * kRoundTrips; i += 2) {
    ball.store(i + 1, std::memory_order_release);
    while (ball.load(std::memory_order_acquire) != i + 2) continue;
  }
  const std::chrono::duration<double, std::nano> taken = SteadyNow() - begin;
  other.Join();
  return taken.count() / (2 * kRoundTrips);
}

int Main() {
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores < 2) {
    std::fputs("core_distance: there is only one core\n", stderr);
    return 1;
  }
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kBursts; ++i) least = std::min(least, Nanoseconds(0, cores - 1));
  std::printf("%.0f\n", least);
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main() { return sluice::bench::Main(); }
