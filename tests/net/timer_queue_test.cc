// Compares the queue with a model that keeps a list of times.
#include "net/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace sluice::net {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr SteadyTime kStart{seconds(1'000)};

// The tick at which a timer for `at` fires: the milliseconds from the queue's start to `at`,
// rounded up, but at least the tick after `now_tick`.
std::int64_t DueTick(SteadyTime at, std::int64_t now_tick) {
  const auto tick = std::chrono::ceil<milliseconds>(at - kStart).count();
  return std::max<std::int64_t>(tick, now_tick + 1);
}

class TimerQueue_Model : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr std::size_t kTimers = 60;

  TimerQueue_Model() {
    for (std::size_t i = 0; i < kTimers; ++i) {
      timers_.push_back(std::make_unique<Timer>(queue_, [this, i] { OnTime(i); }));
    }
  }

  std::size_t AnyTimer() { return random_() % kTimers; }

  // Most times are near, some are far.
  SteadyTime AnyTime() {
    constexpr std::array<std::int64_t, 6> kRanges{300,        3'000,         100'000,
                                                  20'000'000, 6'000'000'000, 20'000'000'000};
    const std::int64_t range = kRanges[std::min<std::size_t>(random_() % 9, kRanges.size() - 1)];
    return now_ + microseconds(static_cast<std::int64_t>(random_() % (range * 1'000)) - 1'000);
  }

  void Start(std::size_t i) {
    const SteadyTime at = AnyTime();
    timers_[i]->Start(at);
    due_[i] = DueTick(at, tick_);
  }

  void Cancel(std::size_t i) {
    timers_[i]->Cancel();
    due_.erase(i);
  }

  // Called within Advance when timer `i` fires. Compares the timer with the model, and sets `tick_`
  // to the tick at which the timer was due. Then sometimes starts or cancels a random timer.
  void OnTime(std::size_t i) {
    ASSERT_TRUE(due_.contains(i)) << "timer " << i << " is not active";
    EXPECT_GE(due_[i], tick_) << "fired after a timer that is due later";
    EXPECT_LE(due_[i], last_tick_) << "fired too early";
    tick_ = due_[i];
    due_.erase(i);
    EXPECT_FALSE(timers_[i]->active());
    if (random_() % 4 == 0) Start(AnyTimer());
    if (random_() % 4 == 0) Cancel(AnyTimer());
  }

  void Advance(SteadyTime to) {
    now_ = to;
    last_tick_ = std::chrono::floor<milliseconds>(to - kStart).count();
    queue_.Advance(to);
    tick_ = last_tick_;
    for (const auto& [i, due] : due_) EXPECT_GT(due, tick_) << "timer " << i << " did not fire";
  }

  void ExpectWakesInTime() {
    const SteadyTime wake = queue_.NextWake();
    for (const auto& [i, due] : due_) EXPECT_LE(wake, kStart + milliseconds(due)) << i;
    for (std::size_t i = 0; i < kTimers; ++i) EXPECT_EQ(timers_[i]->active(), due_.contains(i));
  }

  std::mt19937 random_{GetParam()};
  TimerQueue queue_{kStart};
  std::vector<std::unique_ptr<Timer>> timers_;
  std::map<std::size_t, std::int64_t> due_;  // the due ticks of active timers
  SteadyTime now_ = kStart;
  std::int64_t tick_ = 0;
  std::int64_t last_tick_ = 0;
};

TEST_P(TimerQueue_Model, RandomStartsCancelsAndAdvances_TimersFireAsTheModelSays) {
  constexpr std::array<std::int64_t, 5> kSteps{1'500, 40'000, 700'000, 100'000'000,
                                               10'000'000'000'000};
  for (int step = 0; step < 400 && !HasFailure(); ++step) {
    for (int i = 0; i < 8; ++i) Start(AnyTimer());
    for (int i = 0; i < 3; ++i) Cancel(AnyTimer());
    ExpectWakesInTime();
    if (random_() % 4 == 0 && queue_.NextWake() != SteadyTime::max()) {
      Advance(std::max(now_, queue_.NextWake()));  // as the loop does
    } else {
      const std::int64_t range = kSteps[std::min<std::size_t>(random_() % 12, kSteps.size() - 1)];
      Advance(now_ + microseconds(random_() % range));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, TimerQueue_Model, ::testing::Range(1U, 31U));

TEST(TimerQueue, WithoutTimers_NeverWakes) {
  TimerQueue queue(kStart);
  EXPECT_EQ(queue.NextWake(), SteadyTime::max());
  queue.Advance(kStart + hours(24 * 365));
  EXPECT_EQ(queue.NextWake(), SteadyTime::max());
}

TEST(TimerQueue, FarTimer_FiresAtItsTimeAfterOneWake) {
  TimerQueue queue(kStart);
  const SteadyTime at = kStart + hours(24 * 200);
  SteadyTime now = kStart;
  SteadyTime fired{};
  Timer timer(queue, [&] { fired = now; });
  timer.Start(at);
  int wakes = 0;
  for (; timer.active() && wakes < 1'000; ++wakes) {
    now = queue.NextWake();
    ASSERT_LE(now, at);
    queue.Advance(now);
  }
  EXPECT_EQ(fired, at);
  EXPECT_EQ(wakes, 1);
}

TEST(TimerQueue, TimerThatStartsItselfWithAPastTime_FiresInTheNextMillisecond) {
  TimerQueue queue(kStart);
  int fired = 0;
  Timer timer(queue, [&] {
    ++fired;
    timer.Start(kStart);
  });
  timer.Start(kStart);
  queue.Advance(kStart);
  EXPECT_EQ(fired, 0);
  queue.Advance(kStart + milliseconds(1));
  EXPECT_EQ(fired, 1);
  queue.Advance(kStart + milliseconds(4));
  EXPECT_EQ(fired, 4);
}

TEST(TimerQueue, TimerDestroysAnotherThatIsDueAtTheSameTime_TheOtherDoesNotFire) {
  TimerQueue queue(kStart);
  bool fired = false;
  auto second = std::make_unique<Timer>(queue, [&] { fired = true; });
  Timer first(queue, [&] { second.reset(); });
  first.Start(kStart + milliseconds(7));
  second->Start(kStart + milliseconds(7));
  queue.Advance(kStart + milliseconds(7));
  EXPECT_FALSE(fired);
  EXPECT_EQ(second, nullptr);
}

}  // namespace
}  // namespace sluice::net
