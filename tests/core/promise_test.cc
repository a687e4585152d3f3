// What each algorithm promises, checked on every interval of random histories.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "core/counter.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Admission {
  Time at;
  std::int64_t cost;
};

// What is admitted of bursty arrivals on one counter: mostly close together, sometimes apart.
std::vector<Admission> History(const Limit& limit, std::uint32_t seed) {
  std::mt19937 random(seed);
  CounterState state;
  Time now(seconds(1'000'000));
  std::vector<Admission> admitted;
  for (int i = 0; i < 3000; ++i) {
    now += Duration(random() % (random() % 20 == 0 ? 3'000'000 : 20'000));
    const std::int64_t cost = 1 + random() % 3;
    i == 0 ? Open(limit, state, now) : Advance(limit, state, now);
    if (Grants(limit, state, {.cost = cost}, 1) == 0) continue;
    Take(limit, state, {.demand = {.cost = cost}, .granted = 1});
    admitted.push_back({now, cost});
  }
  return admitted;
}

TEST(TokenBucket, EveryInterval_AdmitsAtMostBurstPlusRateTimesLength) {
  const TokenBucket limit{.rate = 7, .period = seconds(1), .burst = 10};
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const auto admitted = History(limit, seed);
    ASSERT_GT(admitted.size(), 200u);
    for (std::size_t from = 0; from < admitted.size(); ++from) {
      std::int64_t units = 0;
      for (std::size_t to = from; to < admitted.size(); ++to) {
        units += admitted[to].cost;
        const Duration length = admitted[to].at - admitted[from].at;
        // In whole numbers: units ≤ burst + rate · length / period.
        ASSERT_LE((units - limit.burst) * limit.period.count(), limit.rate * length.count());
      }
    }
  }
}

TEST(TokenBucket, HungryCaller_GetsAllThatIsPromised) {
  const TokenBucket limit{.rate = 7, .period = seconds(1), .burst = 10};
  CounterState state;
  Time now(seconds(1'000'000));
  Open(limit, state, now);
  std::int64_t units = 0;
  for (int i = 0; i <= 100'000; ++i, now += milliseconds(1)) {
    Advance(limit, state, now);
    const std::int64_t grants = Grants(limit, state, {}, 100);
    Take(limit, state, {.granted = grants});
    units += grants;
  }
  EXPECT_EQ(units, 10 + 7 * 100);
}

TEST(SlidingLog, EveryIntervalOfTheWindowsLength_AdmitsAtMostTheLimit) {
  const SlidingLog limit{.limit = 10, .window = seconds(1)};
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const auto admitted = History(limit, seed);
    ASSERT_GT(admitted.size(), 200u);
    for (std::size_t from = 0; from < admitted.size(); ++from) {
      std::int64_t units = 0;
      for (std::size_t to = from;
           to < admitted.size() && admitted[to].at < admitted[from].at + limit.window; ++to) {
        units += admitted[to].cost;
      }
      ASSERT_LE(units, limit.limit);
    }
  }
}

TEST(SlidingLog, HungryCaller_GetsTheLimitInEveryWindow) {
  const SlidingLog limit{.limit = 10, .window = seconds(1)};
  CounterState state;
  Time now(seconds(1'000'000));
  Open(limit, state, now);
  std::int64_t units = 0;
  for (int i = 0; i < 10'000; ++i, now += milliseconds(1)) {
    Advance(limit, state, now);
    const std::int64_t grants = Grants(limit, state, {}, 100);
    Take(limit, state, {.granted = grants});
    units += grants;
  }
  EXPECT_EQ(units, 10 * 10);
}

TEST(FixedWindow, EveryWindow_AdmitsAtMostTheLimit) {
  for (const auto align : {FixedWindow::Align::kFirst, FixedWindow::Align::kClock}) {
    const FixedWindow limit{.limit = 10, .window = seconds(1), .align = align};
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      std::map<Time, std::int64_t> windows;
      Time start;
      for (const Admission& admission : History(limit, seed)) {
        if (admission.at >= start + limit.window) start = limit.WindowStart(admission.at);
        windows[start] += admission.cost;
      }
      ASSERT_GT(windows.size(), 10u);
      for (const auto& [window, units] : windows) ASSERT_LE(units, limit.limit);
    }
  }
}

TEST(RetryAfter, RetryExactlyThen_Succeeds_AndNotEarlier) {
  const Limit limits[] = {TokenBucket{.rate = 7, .period = seconds(1), .burst = 10},
                          TokenBucket{.rate = 3, .period = Duration(7), .burst = 3},
                          FixedWindow{.limit = 10, .window = seconds(1)},
                          SlidingLog{.limit = 10, .window = seconds(1)}};
  std::mt19937 random(1);
  for (const Limit& limit : limits) {
    CounterState state;
    Time now(seconds(1'000'000));
    Open(limit, state, now);
    int retries = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t cost = 1 + random() % 3;
      now += Duration(random() % 3);
      Advance(limit, state, now);
      if (Grants(limit, state, {.cost = cost}, 1) == 0) {
        const sluice::Run run{.demand = {.cost = cost}, .now = now};
        const Verdict verdict = JudgeNth(limit, {.snapshot = Summarise(limit, state, run)}, run, 0);
        CounterState early = state;
        Advance(limit, early, now + verdict.retry_after - Duration(1));
        ASSERT_EQ(Grants(limit, early, {.cost = cost}, 1), 0);
        now += verdict.retry_after;
        Advance(limit, state, now);
        ASSERT_EQ(Grants(limit, state, {.cost = cost}, 1), 1);
        ++retries;
      }
      Take(limit, state, {.demand = {.cost = cost}, .granted = 1});
    }
    EXPECT_GT(retries, 20);
  }
}

}  // namespace
}  // namespace sluice
