// The statistics of messages.
#include "load/recorder.h"

#include <gtest/gtest.h>

namespace sluice::load {
namespace {

using std::chrono::milliseconds;

constexpr SteadyTime kMeasureFrom{std::chrono::hours(1)};
constexpr CheckResult kAllow{.decision = kAllowed, .source = 1};
constexpr CheckResult kDeny{.decision = kDenied, .source = 2};
constexpr CheckResult kError{.is_error = true, .code = GrpcStatus::kUnavailable, .message = "down"};

TEST(Recorder, WarmUp_IsShownAsProgressButNotCounted) {
  Recorder recorder;
  recorder.MeasureFrom(kMeasureFrom);
  Message early = recorder.Begin(kMeasureFrom - milliseconds(1), 1);
  Message first = recorder.Begin(kMeasureFrom, 1);
  recorder.set_now(kMeasureFrom + milliseconds(5));
  recorder.Record(early, kAllow);
  EXPECT_EQ(recorder.stats().checks(), 0u);
  recorder.Record(first, kDeny);
  EXPECT_EQ(recorder.stats().checks(), 1u);
  EXPECT_EQ(recorder.stats().denied, 1u);
  EXPECT_EQ(recorder.stats().elapsed, milliseconds(5));
  EXPECT_EQ(recorder.progress().allowed, 1u);
  EXPECT_EQ(recorder.progress().denied, 1u);
}

TEST(Recorder, MessageOfSeveralChecks_LatencyEndsWithTheLastResult) {
  Recorder recorder;
  recorder.MeasureFrom(kMeasureFrom);
  Message message = recorder.Begin(kMeasureFrom, 3);
  recorder.set_now(kMeasureFrom + milliseconds(1));
  recorder.Record(message, kAllow);
  recorder.Record(message, kError);
  EXPECT_EQ(recorder.stats().latencies.count(), 0u);
  recorder.set_now(kMeasureFrom + milliseconds(9));
  recorder.Record(message, kDeny);
  EXPECT_EQ(recorder.stats().latencies.count(), 1u);
  EXPECT_EQ(recorder.stats().latencies.max(), milliseconds(9));
  EXPECT_EQ(recorder.stats().allowed, 1u);
  EXPECT_EQ(recorder.stats().denied, 1u);
  EXPECT_EQ(recorder.stats().failed, 1u);
  EXPECT_EQ(recorder.stats().sources, (std::array<std::uint64_t, 7>{0, 1, 1, 0, 0, 0, 0}));
}

TEST(Recorder, Waits_AreCountedAndRemembered) {
  Recorder recorder;
  recorder.MeasureFrom(kMeasureFrom);
  Message message = recorder.Begin(kMeasureFrom, 1);
  recorder.set_now(kMeasureFrom + milliseconds(1));
  recorder.Record(message, {.decision = kAllowed, .source = 1, .wait = milliseconds(30)});
  recorder.ExtendTo(kMeasureFrom + milliseconds(31));
  EXPECT_EQ(message.wait, milliseconds(30));
  EXPECT_EQ(recorder.stats().waits.count(), 1u);
  EXPECT_EQ(recorder.stats().waited, milliseconds(30));
  EXPECT_EQ(recorder.stats().elapsed, milliseconds(31));
}

TEST(Recorder, MessageThatFails_ItsUnansweredChecksFailWithoutLatency) {
  Recorder recorder;
  recorder.MeasureFrom(kMeasureFrom);
  Message message = recorder.Begin(kMeasureFrom, 100);
  recorder.Fail(message, {GrpcStatus::kDeadlineExceeded, "no answer"});
  recorder.Fail(message, {GrpcStatus::kInternal, "it is over already"});
  EXPECT_EQ(recorder.stats().failed, 100u);
  ASSERT_EQ(recorder.stats().errors.size(), 1u);
  EXPECT_EQ(recorder.stats().errors.at(GrpcStatus::kDeadlineExceeded).count, 100u);
  EXPECT_EQ(recorder.stats().errors.at(GrpcStatus::kDeadlineExceeded).first, "no answer");
  EXPECT_EQ(recorder.stats().latencies.count(), 0u);
}

TEST(Recorder, InvalidAnswer_IsNotADecision) {
  Recorder recorder;
  recorder.MeasureFrom(kMeasureFrom);
  Message message = recorder.Begin(kMeasureFrom, 2);
  recorder.Record(message, {.decision = 0, .source = 1});
  EXPECT_EQ(recorder.stats().errors.at(GrpcStatus::kInternal).count, 1u);
  recorder.Record(message, {.decision = kAllowed, .source = -7});
  EXPECT_EQ(recorder.stats().sources[0], 1u);
}

TEST(LoadStats, Merge_AddsSumsAndKeepsExtremes) {
  LoadStats sum;
  LoadStats other;
  sum.allowed = 1;
  sum.elapsed = milliseconds(500);
  other.denied = 3;
  other.elapsed = milliseconds(1000);
  other.cpu = milliseconds(8);
  other.sources[1] = 3;
  other.messages = 7;
  other.late = 2;
  other.latest = milliseconds(4);
  other.lost = "gone";
  other.Fail({GrpcStatus::kUnavailable, "down"}, 4);
  sum.Merge(other);
  sum.Merge(other);
  EXPECT_EQ(sum.checks(), 1u + 2 * (3 + 4));
  EXPECT_EQ(sum.errors.at(GrpcStatus::kUnavailable).count, 8u);
  EXPECT_EQ(sum.errors.at(GrpcStatus::kUnavailable).first, "down");
  EXPECT_EQ(sum.sources[1], 6u);
  EXPECT_EQ(sum.messages, 14u);
  EXPECT_EQ(sum.late, 4u);
  EXPECT_EQ(sum.latest, milliseconds(4));
  EXPECT_EQ(sum.lost, "gone");
  EXPECT_DOUBLE_EQ(sum.checks_per_second(), 7);  // answered checks only
  EXPECT_DOUBLE_EQ(sum.cpu_us_per_check(), 16'000.0 / 15);
}

}  // namespace
}  // namespace sluice::load
