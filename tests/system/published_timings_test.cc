// Published timings of other limiters, tested with Redis in real time: requests start at the times
// at which they would start with Guava and nginx. A start time is the time of the decision plus the
// wait, on the store's clock. So it does not matter if a caller is a little late.
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;

constexpr char kRules[] = R"yaml(
domain: published
rules:
  - name: guava-5
    match: {endpoint: /guava-5}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 5/s, burst: 5, borrow: true, initial: empty}
  - name: guava-1
    match: {endpoint: /guava-1}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1/s, burst: 1, borrow: true, initial: empty}
  - name: guava-warmup
    match: {endpoint: /guava-warmup}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 2/s, warmup: 4s}
  - name: nginx-delay
    match: {endpoint: /nginx-delay}
    limits:
      - {algorithm: leaky_bucket, rate: 2/s, queue: 4}
  - name: nginx-nodelay
    match: {endpoint: /nginx-nodelay}
    limits:
      - {algorithm: leaky_bucket, rate: 2/s, queue: 4, delay: false}
)yaml";

Duration WaitOf(const Answer& answer) {
  const auto& wait = answer.response.wait();
  return std::chrono::seconds(wait.seconds()) + Duration(wait.nanos() / 1000);
}

// Start times of one caller's requests, on the store's clock, relative to the first. nullopt: the
// request was denied.
using Starts = std::vector<std::optional<Duration>>;

struct Scenario {
  const char* what;
  const char* endpoint;
  bool waits_as_told;
  std::vector<std::uint64_t> costs;
  std::vector<std::optional<milliseconds>> starts;
};

Starts Play(Fleet& fleet, const Scenario& scenario) {
  Starts starts;
  Time first;
  for (std::size_t i = 0; i < scenario.costs.size(); ++i) {
    auto request = CheckOf("published", scenario.endpoint, scenario.what);
    request.set_cost(scenario.costs[i]);
    if (scenario.waits_as_told) request.mutable_max_wait()->set_seconds(60);
    const Answer answer = fleet.Check(request, static_cast<int>(i) % fleet.size());
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    if (!answer.allowed()) {
      starts.push_back(std::nullopt);
      continue;
    }
    const Time start = answer.decided_at() + WaitOf(answer);
    if (i == 0) first = start;
    starts.push_back(start - first);
    if (scenario.waits_as_told) std::this_thread::sleep_until(answer.answered + WaitOf(answer));
  }
  return starts;
}

std::vector<std::optional<milliseconds>> Every(milliseconds step, int count) {
  std::vector<std::optional<milliseconds>> starts;
  for (int i = 0; i < count; ++i) starts.push_back(step * i);
  return starts;
}

// Guava's times are sums of the waits in RateLimiterTest and in the comment of SmoothRateLimiter.
std::vector<Scenario> Scenarios() {
  const auto at = [](int ms) { return milliseconds(ms); };
  const std::optional<milliseconds> denied;
  return {
      {"one at a time", "/guava-5", true, std::vector<std::uint64_t>(10, 1), Every(at(200), 10)},
      {"the next pays",
       "/guava-5",
       true,
       {50, 5, 5, 5, 5},
       {at(0), at(10'000), at(11'000), at(12'000), at(13'000)}},
      {"more and more",
       "/guava-1",
       true,
       {1, 2, 3, 4, 5},
       {at(0), at(1'000), at(3'000), at(6'000), at(10'000)}},
      {"warming up",
       "/guava-warmup",
       true,
       std::vector<std::uint64_t>(8, 1),
       {at(0), at(1'375), at(2'500), at(3'375), at(4'000), at(4'500), at(5'000), at(5'500)}},
      {"six at once",
       "/nginx-delay",
       false,
       std::vector<std::uint64_t>(6, 1),
       {at(0), at(500), at(1'000), at(1'500), at(2'000), denied}},
      {"six at once, no delay",
       "/nginx-nodelay",
       false,
       std::vector<std::uint64_t>(6, 1),
       {at(0), at(0), at(0), at(0), at(0), denied}},
  };
}

TEST(PublishedTimings, CallersThatWaitAsAnswered_StartAtThePublishedTimes) {
  constexpr milliseconds kTolerance(5);
  RedisServer redis;
  Fleet fleet({.rules = kRules}, &redis);
  const auto scenarios = Scenarios();
  std::vector<Starts> played(scenarios.size());
  std::vector<Thread> callers;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    callers.emplace_back("caller", [&, i] { played[i] = Play(fleet, scenarios[i]); });
  }
  for (Thread& caller : callers) caller.Join();

  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    SCOPED_TRACE(scenarios[i].what);
    const bool exact = scenarios[i].endpoint != std::string("/nginx-nodelay");
    ASSERT_EQ(played[i].size(), scenarios[i].starts.size());
    for (std::size_t k = 0; k < played[i].size(); ++k) {
      SCOPED_TRACE(k);
      ASSERT_EQ(played[i][k].has_value(), scenarios[i].starts[k].has_value());
      if (!played[i][k]) continue;
      const Duration late = *played[i][k] - *scenarios[i].starts[k];
      if (exact) {
        EXPECT_LE(std::chrono::abs(late), kTolerance) << late.count() << " us";
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test
