// A limit that adapts to the load: the value at which it settles, and the events that change it.
// The services are simulated, and all runs are identical.
#include <gtest/gtest.h>

#include <map>
#include <queue>
#include <random>
#include <vector>

#include "tests/core/history.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Concurrency kAdaptive{
    .limit = 500,
    .ttl = seconds(30),
    .adapt = {.on = true, .min = 4, .latency = milliseconds(300), .share = 90}};

// A service with several servers and one queue. Its callers send more calls than it can handle.
// Each call takes a slot, and releases it at the end of the call.
class Overloaded {
 public:
  explicit Overloaded(int servers) : servers_(servers) {}

  void SetServers(int servers) { servers_ = servers; }
  // From now on, every nth call ends immediately. If `says_overload`, it falsely reports an
  // overload; otherwise it falsely reports success.
  void SetLiar(int nth, bool says_overload) {
    liar_ = nth;
    says_overload_ = says_overload;
  }

  void RunFor(Duration time) {
    const Time end = now_ + time;
    while (now_ < end) Step();
  }
  // Runs for `time`. Returns the mean of the limit during that time.
  double MeanLimit(Duration time) {
    const Time end = now_ + time;
    double sum = 0;
    int steps = 0;
    for (; now_ < end; ++steps, sum += static_cast<double>(limit())) Step();
    return sum / steps;
  }

  std::int64_t limit() { return Reply(Mode::kPeek, 0).verdict.limit; }

 private:
  struct Call {
    Time taken;
    Lease lease;
  };

  // One caller sends a check. Then the clock advances by 1 ms.
  void Step() {
    Finish();
    const Lease lease = MakeLease(++calls_, kAdaptive.ttl);
    if (Reply(Mode::kConsume, 1, lease).verdict.admitted) {
      if (liar_ > 0 && calls_ % liar_ == 0) {
        End({now_, lease}, says_overload_);
      } else {
        waiting_.push({now_, lease});
      }
    }
    Fill();
    now_ += milliseconds(1);
  }

  void Finish() {
    while (!running_.empty() && running_.begin()->first <= now_) {
      End(running_.begin()->second, false);
      running_.erase(running_.begin());
      Fill();
    }
  }

  void Fill() {
    std::exponential_distribution<double> takes(1 / 100'000.0);
    while (!waiting_.empty() && running_.size() < static_cast<std::size_t>(servers_)) {
      running_.emplace(now_ + Duration(static_cast<std::int64_t>(takes(random_))),
                       waiting_.front());
      waiting_.pop();
    }
  }

  void End(const Call& call, bool overload) {
    Lease lease = call.lease;
    lease.report = HoldReport{.taken = call.taken, .duration = std::nullopt};
    if (overload) lease.report->duration = HoldReport::kOverload;
    Reply(Mode::kSettle, 0, lease);
  }

  struct Answer {
    Verdict verdict;
  };
  Answer Reply(Mode mode, std::int64_t units, const std::optional<Lease>& lease = {}) {
    CoalescedChecks checks{.lease = lease, .now = now_};
    checks.demand.mode = mode;
    checks.demand.units = units;
    if (is_new_) Open(kLimit, state_, now_);
    is_new_ = false;
    Advance(kLimit, state_, now_);
    if (mode == Mode::kSettle) Change(kLimit, state_, checks);
    if (mode == Mode::kConsume) checks.granted = Grants(kLimit, state_, checks.demand, 1);
    CounterReport report{.snapshot = Summarize(kLimit, state_, checks)};
    const Verdict verdict = VerdictAt(kLimit, report, checks, 0);
    if (checks.granted > 0) Take(kLimit, state_, checks);
    return {verdict};
  }

  const Limit kLimit = kAdaptive;
  CounterState state_;
  bool is_new_ = true;
  int servers_;
  int liar_ = 0;
  bool says_overload_ = false;
  Time now_{hours(1)};
  std::uint64_t calls_ = 0;
  std::mt19937 random_{1};
  std::queue<Call> waiting_;
  std::multimap<Time, Call> running_;
};

// With 40 servers, 66 is the largest number of slots with which 90 % of the calls (the limit's
// `share`) take at most 300 ms. tests/bench/adaptive_laws.py computes this number.
TEST(AdaptiveLimit, Overload_LimitSettlesNearTheLargestValueThatKeepsTheShare) {
  Overloaded service(40);
  service.RunFor(seconds(20));
  EXPECT_NEAR(service.MeanLimit(seconds(30)), 66, 66 * 0.15);
}

TEST(AdaptiveLimit, CapacityHalvedThenDoubled_LimitFollows) {
  Overloaded service(40);
  service.RunFor(seconds(30));
  service.SetServers(20);
  service.RunFor(seconds(10));
  EXPECT_NEAR(service.MeanLimit(seconds(20)), 33, 33 * 0.15);
  service.SetServers(40);
  service.RunFor(seconds(30));
  EXPECT_NEAR(service.MeanLimit(seconds(20)), 66, 66 * 0.15);
}

TEST(AdaptiveLimit, FalseReports_MoveTheLimitLittle) {
  for (const bool says_overload : {false, true}) {
    Overloaded service(40);
    service.SetLiar(50, says_overload);
    service.RunFor(seconds(20));
    EXPECT_NEAR(service.MeanLimit(seconds(30)), 66, 66 * 0.2) << says_overload;
  }
}

// One counter. The tests call it directly, without a service.
class Counter {
 public:
  explicit Counter(const Concurrency& limit) : limit_(limit) { state_ = limit_.New(now); }

  void Take(std::uint64_t lease, std::int64_t slots) {
    limit_.Advance(state_, now);
    limit_.Take(state_, slots, MakeLease(lease, limit_.ttl));
  }
  void Release(std::uint64_t lease, const std::optional<HoldReport>& report) {
    Lease ended = MakeLease(lease, limit_.ttl);
    ended.report = report;
    limit_.Advance(state_, now);
    limit_.Release(state_, ended);
  }
  std::int64_t learned() {
    limit_.Advance(state_, now);
    return state_.learned.limit;
  }
  std::int64_t limit() {
    limit_.Advance(state_, now);
    return limit_.LimitNow(state_);
  }

  Time now{hours(1)};
  Concurrency limit_;

 private:
  Concurrency::State state_;
};

constexpr std::int64_t kSlot = LearnedLimit::kSlot;

TEST(AdaptiveLimit, NewCounter_HasTheMinimum) { EXPECT_EQ(Counter(kAdaptive).limit(), 4); }

TEST(AdaptiveLimit, ReleaseWithoutAReport_LearnsNothing) {
  Counter counter(kAdaptive);
  counter.Take(1, 4);
  counter.now += seconds(1);
  counter.Release(1, {});
  EXPECT_EQ(counter.learned(), 0);
}

TEST(AdaptiveLimit, Limit_RisesIfFourFifthsOfItAreHeld_OtherwiseNot) {
  for (const std::int64_t slots : {3, 4}) {
    Counter counter(kAdaptive);
    counter.Take(1, slots);
    const Time taken = counter.now;
    counter.now += milliseconds(300);  // just in time
    counter.Release(1, HoldReport{taken, {}});
    EXPECT_EQ(counter.learned() > 4 * kSlot, slots == 4) << slots;
  }
}

TEST(AdaptiveLimit, TooSlowOverloadedAndExpiredHolds_LowerTheLimitAlike) {
  const auto learned_after = [](auto end) {
    Counter counter(Concurrency{.limit = 100, .ttl = seconds(30), .adapt = kAdaptive.adapt});
    for (std::uint64_t lease = 1; lease <= 40; ++lease) {  // first, the limit rises
      counter.Take(lease, 100);
      const Time taken = counter.now;
      counter.now += milliseconds(100);
      counter.Release(lease, HoldReport{taken, {}});
    }
    const std::int64_t before = counter.learned();
    counter.Take(99, 1);
    end(counter, counter.now);
    counter.Take(100, 1);
    return counter.learned() - before;
  };
  const auto release = [](Duration after, std::optional<Duration> says) {
    return [=](Counter& counter, Time taken) {
      counter.now += after;
      counter.Release(99, HoldReport{taken, says});
    };
  };
  const std::int64_t too_slow = learned_after(release(milliseconds(301), {}));
  EXPECT_LT(too_slow, 0);
  EXPECT_EQ(learned_after(release(milliseconds(299), HoldReport::kOverload)), too_slow);
  EXPECT_EQ(learned_after(release(milliseconds(299), milliseconds(301))), too_slow);
  EXPECT_EQ(learned_after(release(seconds(9), milliseconds(10))), 0) << "few slots are held";
  EXPECT_EQ(learned_after([](Counter& counter, Time) { counter.now += seconds(30); }), too_slow);
  EXPECT_EQ(learned_after([](Counter& counter, Time taken) {
              counter.now -= hours(1);  // Redis' clock was replaced by one that is behind
              counter.Release(99, HoldReport{taken, {}});
            }),
            0);
}

TEST(AdaptiveLimit, LightLoad_KeepsTheLimit_ADayWithoutChecksResetsIt) {
  Counter counter(kAdaptive);
  for (std::uint64_t lease = 1; lease <= 40; ++lease) {
    counter.Take(lease, 100);
    const Time taken = counter.now;
    counter.now += milliseconds(100);
    counter.Release(lease, HoldReport{taken, {}});
  }
  const std::int64_t limit = counter.limit();
  EXPECT_GT(limit, 100);
  for (std::uint64_t lease = 100; lease < 3700; ++lease) {
    counter.Take(lease, 1);
    const Time taken = counter.now;
    counter.now += milliseconds(100);
    counter.Release(lease, HoldReport{taken, {}});
    counter.now += milliseconds(900);
  }
  EXPECT_EQ(counter.limit(), limit);
  counter.now += hours(24);
  EXPECT_EQ(counter.limit(), 4);
}

TEST(AdaptiveLimit, NewBounds_ApplyAtOnce) {
  Counter counter(kAdaptive);
  for (std::uint64_t lease = 1; lease <= 40; ++lease) {
    counter.Take(lease, 100);
    const Time taken = counter.now;
    counter.now += milliseconds(100);
    counter.Release(lease, HoldReport{taken, {}});
  }
  counter.limit_.limit = 20;
  EXPECT_EQ(counter.limit(), 20);
  counter.limit_.limit = 500;
  counter.limit_.adapt.min = 450;
  EXPECT_EQ(counter.limit(), 450);
}

}  // namespace
}  // namespace sluice
