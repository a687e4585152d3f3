// Measures the gain of hand-written code per check: parsing a CheckLimitRequest compared with the
// generated class, and observing a duration compared with prometheus-cpp's histogram.
//
//   cmake --preset release && cmake --build --preset release --target hand_written
//   build/release/bench/hand_written
#include <prometheus/histogram.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "api/check_request_parser.h"
#include "metrics/histogram.h"

namespace sluice::bench {
namespace {

constexpr int kCalls = 1'000'000;
constexpr int kRounds = 9;

// Other processes do not count.
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

std::string Request() {
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  (*request.mutable_attributes())["endpoint"] = "/boot/pay";
  (*request.mutable_attributes())["user"] = "1234567";
  request.set_cost(1);
  return request.SerializeAsString();
}

void CompareParsers() {
  const std::string bytes = Request();
  std::size_t sink = 0;
  CheckRequest request;
  std::string_view request_id;
  const double ours = MedianNanoseconds([&](int) {
    sink += ParseCheckRequest(bytes, request, request_id) ? request.attributes.size() : 0;
  });
  v1::CheckLimitRequest generated;  // used again, as servers do
  const double theirs = MedianNanoseconds(
      [&](int) { sink += generated.ParseFromString(bytes) ? generated.attributes().size() : 0; });
  std::printf("request of two attributes: %.0f ns, generated class %.0f ns (%zu)\n", ours, theirs,
              sink);
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

int main() {
  sluice::bench::CompareParsers();
  sluice::bench::CompareHistograms();
}
