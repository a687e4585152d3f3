// Compares Sluice's hand-written histogram with the histogram of prometheus-cpp: the CPU time to
// observe a duration.
//
//   cmake --preset release && cmake --build --preset release --target hand_written
//   build/release/bench/hand_written
#include <prometheus/histogram.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include "metrics/histogram.h"

namespace sluice::bench {
namespace {

constexpr int kCalls = 1'000'000;
constexpr int kRounds = 9;

// CPU time, so that other processes do not count.
double CpuNanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <typename Call>
double MedianNanoseconds(const Call& call) {
  std::array<double, kRounds> rounds{};
  for (double& round : rounds) {
    const double begin = CpuNanoseconds();
    for (int i = 0; i < kCalls; ++i) call(i);
    round = (CpuNanoseconds() - begin) / kCalls;
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kRounds / 2];
}

void CompareHistograms() {
  std::vector<Histogram::Duration> bounds;
  std::vector<double> seconds;
  for (std::int64_t bound = 1000; bounds.size() < 20; bound *= 2) {
    bounds.emplace_back(bound);
    seconds.push_back(static_cast<double>(bound) * 1e-9);
  }
  Histogram ours(bounds);
  prometheus::Histogram theirs(seconds);
  const auto took = [](int i) { return std::chrono::nanoseconds(i % 4096 * 100); };
  const double own = MedianNanoseconds([&](int i) { ours.Observe(took(i)); });
  const double library = MedianNanoseconds(
      [&](int i) { theirs.Observe(std::chrono::duration<double>(took(i)).count()); });
  std::printf("one observation: %.0f ns, prometheus-cpp %.0f ns\n", own, library);
}

}  // namespace
}  // namespace sluice::bench

int main() { sluice::bench::CompareHistograms(); }
