// Clocks that step back: a small step counts as skew, a large one as another clock. With every
// algorithm, a step must not add units, and must lengthen the longest wait by at most the skew.
#include <gtest/gtest.h>

#include "tests/core/every_limit.h"
#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<Duration> kSteps{
    Duration(1), milliseconds(1), milliseconds(999), seconds(1), seconds(1) + Duration(1),
    seconds(59), hours(1),        days(30)};

class ClockTest : public testing::TestWithParam<NamedLimit> {
 protected:
  // Sends checks until one is denied. Returns the denial.
  static Verdict Exhaust(SimulatedCounter& counter) {
    for (int i = 0; i < 100; ++i) {
      const Verdict verdict = counter.Consume();
      if (!verdict.admitted) return verdict;
    }
    ADD_FAILURE() << "never denied";
    return {};
  }

  // Whether the limit's windows are aligned to the clock. If they are, they change when the clock
  // is replaced.
  static bool IsOfTheClock() {
    const auto* const window = std::get_if<FixedWindow>(&GetParam().limit);
    return window != nullptr && window->align != FixedWindow::Align::kFirst;
  }
};

INSTANTIATE_TEST_SUITE_P(Limits, ClockTest, testing::ValuesIn(EveryLimit()),
                         testing::PrintToStringParamName());

TEST_P(ClockTest, StepBack_AdmitsNothingExtra_RetryAfterHolds) {
  for (const Duration step : kSteps) {
    SCOPED_TRACE(step.count());
    SimulatedCounter counter(GetParam().limit);
    const Verdict before = Exhaust(counter);
    counter.now -= step;
    const Verdict after = counter.Consume();
    ASSERT_FALSE(after.admitted) << "the step has added units";
    EXPECT_EQ(after.remaining, before.remaining);
    if (step <= kMaxSkew) {
      EXPECT_EQ(after.retry_after, before.retry_after + step) << "the counter waits for the clock";
    } else if (!IsOfTheClock()) {
      EXPECT_EQ(after.retry_after, before.retry_after) << "the counter follows the new clock";
    }
    EXPECT_LE(after.retry_after, GetParam().longest + std::min(step, kMaxSkew)) << "too long";
    counter.now += after.retry_after - Duration(1);
    EXPECT_FALSE(counter.Peek().admitted);
    counter.now += Duration(1);
    EXPECT_TRUE(counter.Consume().admitted);
  }
}

TEST_P(ClockTest, StepBackWithinSkew_KeepsTheFreeUnits) {
  SimulatedCounter counter(GetParam().limit);
  const std::int64_t remaining = counter.Consume(3).remaining;
  counter.now -= milliseconds(900);
  EXPECT_EQ(counter.Peek().remaining, remaining);
}

// Many small steps within the skew add up to a large one. They must lengthen a wait
// by at most the skew.
TEST_P(ClockTest, ManyStepsBack_LengthenTheWaitByAtMostTheSkew) {
  if (!Supports(GetParam().limit, Mode::kCharge)) return;  // leases: concurrency_test.cc
  SimulatedCounter counter(GetParam().limit);
  SimulatedCounter still(GetParam().limit);
  for (SimulatedCounter* each : {&counter, &still}) {
    for (int i = 0; i < 200; ++i) {
      if (each == &counter) each->now -= milliseconds(900);
      each->Charge(1);
    }
  }
  const Verdict verdict = counter.Peek();
  EXPECT_FALSE(verdict.admitted);
  const Duration edge = IsOfTheClock() ? GetParam().longest : still.Peek().retry_after;
  EXPECT_LE(verdict.retry_after, edge + kMaxSkew);
}

// A clock that jumps, and a stopwatch that adds up the clock's steps forward and ignores its steps
// back. In the stopwatch's time, every promise holds in every interval.
class JumpingClockTest : public ClockTest {
 protected:
  void Jump() {
    Duration by = arrivals_.Gap();
    if (arrivals_.Below(10) == 0) by = -arrivals_.Pick(kSteps);
    if (arrivals_.Below(100) == 0) by = hours(1);
    counter_.now += by;
    stopwatch_ += std::max(by, Duration(0));
  }

  Passages PassagesByStopwatch() {
    Passages passed;
    for (int i = 0; i < 5000; ++i) {
      Jump();
      const std::int64_t cost = arrivals_.Cost();
      const Verdict verdict = counter_.Consume(cost);
      if (verdict.admitted) passed.push_back({stopwatch_ + verdict.wait, cost});
    }
    return passed;
  }

  Arrivals arrivals_{3};
  SimulatedCounter counter_{GetParam().limit};
  Time stopwatch_{};
};

// Windows aligned to the clock are excluded: each new clock may start another window.
std::vector<NamedLimit> LimitsOffTheClock() {
  std::vector<NamedLimit> limits = EveryLimit();
  std::erase_if(limits, [](const NamedLimit& named) {
    return named.name == "ClockWindow" || named.name == "EpochWindow" || named.name == "Month";
  });
  return limits;
}

INSTANTIATE_TEST_SUITE_P(Limits, JumpingClockTest, testing::ValuesIn(LimitsOffTheClock()),
                         testing::PrintToStringParamName());

TEST_P(JumpingClockTest, Counter_KeepsItsPromise_AndIsNeverStuck) {
  const Passages passed = PassagesByStopwatch();
  EXPECT_GT(passed.size(), 50u);
  std::visit(ExpectPromise{passed}, GetParam().limit);
  // A generous time: three times the longest wait, and the skew.
  counter_.now += 3 * GetParam().longest + kMaxSkew;
  EXPECT_TRUE(counter_.Consume().admitted);
}

// After the clock was replaced, it is unknown how many of the check's units have drained, so an
// undo gives nothing back. Computing that number would also overflow: at a high rate, the product
// of the rate and the difference between the clocks exceeds 64 bits.
TEST(LeakyBucket, ClockWasReplacedSinceTheCheck_UndoGivesNothingBack) {
  for (const bool delays : {false, true}) {
    LeakyBucket limit{.rate = 1'000'000, .period = seconds(1), .queue = 9};
    limit.delays = delays;
    const Time checked{days(20'000)};
    LeakyBucket::State state = limit.New(checked);
    const LeakyBucket::State before = state;
    limit.Take(state, 3, 1);
    ASSERT_TRUE(limit.Advance(state, checked - days(1'000)));
    const LeakyBucket::State found = state;
    const ChangeResult undone = limit.Undo(state, 3, before);
    EXPECT_FALSE(undone.changed);
    EXPECT_EQ(undone.dropped, 3);
    EXPECT_EQ(state, found);
  }
}

}  // namespace
}  // namespace sluice
