// Runs that end after a number of messages, and calls with a timeout or a wait.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "load/generator.h"
#include "tests/load/fake_limiter.h"
#include "tests/load/run.h"
#include "tests/support/wait_until.h"
#include "tests/tools/fake_server.h"

namespace sluice::load {
namespace {

using sluice::test::FakeLimiter;
using std::chrono::milliseconds;
using std::chrono::seconds;

Plan PlanFor(const FakeLimiter& server, std::uint64_t messages, std::uint32_t callers = 1) {
  return {.target = {.address = server.address()},
          .in_flight = callers,
          .connections = 1,
          .duration = std::chrono::hours(1),
          .messages = messages,
          .timeout = seconds(20)};
}

// Each answer allows the check and tells the caller to wait for `wait` first.
FakeLimiter::Answers AllowAfter(Duration wait) {
  return {.check = [wait](const auto&, v1::CheckLimitResponse& response) {
    response.set_decision(v1::DECISION_ALLOWED);
    response.mutable_wait()->set_seconds(wait / seconds(1));
    response.mutable_wait()->set_nanos(static_cast<int>(wait % seconds(1) / Duration(1)) * 1000);
    return grpc::Status::OK;
  }};
}

TEST(CountedRun, SendsTheGivenNumberOfEqualMessages) {
  std::atomic<std::uint64_t> calls = 0;
  std::atomic<std::uint64_t> with_attributes = 0;
  FakeLimiter server({.check = [&](const v1::CheckLimitRequest& request, auto& response) {
    ++calls;
    if (request.attributes_size() > 0) ++with_attributes;
    response.set_decision(v1::DECISION_ALLOWED);
    return grpc::Status::OK;
  }});
  for (const std::uint32_t threads : {1U, 3U}) {
    calls = 0;
    Plan plan = PlanFor(server, 100, 7);
    plan.connections = plan.threads = threads;
    EXPECT_EQ(StatsOf(plan).allowed, 100u) << threads;
    EXPECT_EQ(calls, 100u) << threads;
  }
  EXPECT_EQ(with_attributes, 0u);
}

TEST(CountedRun, Token_IsSentAsBearerToken) {
  test::FakeServer server([](const auto&, auto& response) {
    response.set_decision(v1::DECISION_ALLOWED);
    return grpc::Status::OK;
  });
  const LoadStats stats = StatsOf({.target = {.address = server.address(), .token = "open-sesame"},
                                   .in_flight = 1,
                                   .connections = 1,
                                   .messages = 1,
                                   .timeout = seconds(20)});
  EXPECT_EQ(stats.allowed, 1u);
  EXPECT_EQ(server.authorization(), "Bearer open-sesame");
}

TEST(CountedRun, Rate_IsNotExceeded) {
  FakeLimiter server(AllowAfter({}));
  Plan plan = PlanFor(server, 51, 100);
  plan.rate = 500;
  const LoadStats stats = StatsOf(plan);
  EXPECT_EQ(stats.allowed, 51u);
  EXPECT_GE(stats.elapsed, milliseconds(100));  // the last is due 50 / 500 s after the first
}

TEST(CountedRun, Rate_InFlightLimitIsKept) {
  std::atomic<int> in_flight = 0;
  std::atomic<int> most = 0;
  FakeLimiter server({.check = [&](const auto&, auto& response) {
    const int now = ++in_flight;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    response.set_decision(v1::DECISION_ALLOWED);
    --in_flight;
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server, 200, 2);
  plan.rate = 1e6;
  EXPECT_EQ(StatsOf(plan).allowed, 200u);
  EXPECT_LE(most, 2);
}

TEST(CountedRun, Sleep_EachCallerWaitsAsAnswersSay) {
  FakeLimiter server(AllowAfter(milliseconds(20)));
  for (const std::uint32_t callers : {1, 2, 10}) {
    Plan plan = PlanFor(server, 10, callers);
    plan.sleep = true;
    const LoadStats stats = StatsOf(plan);
    EXPECT_GE(stats.elapsed, milliseconds(20) * (10 / callers)) << callers;
    EXPECT_EQ(stats.waits.count(), 10u);
    EXPECT_EQ(stats.waited, milliseconds(200));
    EXPECT_EQ(stats.waits.max(), milliseconds(20));
  }
}

TEST(CountedRun, OneCallerSleepsLong_TheOtherSendsTheRest_StopEndsTheSleep) {
  std::atomic<int> calls = 0;
  FakeLimiter server({.check = [&](const auto&, v1::CheckLimitResponse& response) {
    response.set_decision(v1::DECISION_ALLOWED);
    response.mutable_wait()->set_seconds(calls++ == 0 ? 3600 : 0);
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server, 20, 2);
  plan.sleep = true;
  const auto run = Begin(plan);
  EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return run->progress().allowed == 20; }));
  EXPECT_FALSE(run->WaitUntil(SteadyNow()));
  run->Stop();
  EXPECT_TRUE(run->WaitUntil(SteadyNow() + seconds(20)));
}

TEST(CountedRun, NoSleep_WaitsAreOnlyCounted) {
  FakeLimiter server(AllowAfter(std::chrono::hours(1)));
  EXPECT_EQ(StatsOf(PlanFor(server, 10)).waited, std::chrono::hours(10));
}

TEST(CountedRun, CallIsNotAnsweredInTime_FailsAndTheNextIsSent) {
  std::atomic<bool> held = true;
  std::atomic<int> calls = 0;
  FakeLimiter server({.check = [&](const auto&, auto& response) {
    if (calls++ == 0) held.wait(true);
    response.set_decision(v1::DECISION_ALLOWED);
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server, 3);
  plan.call_timeout = milliseconds(200);
  const LoadStats stats = StatsOf(plan);
  held = false;
  held.notify_all();
  EXPECT_EQ(stats.errors.at(GrpcStatus::kDeadlineExceeded).first, "no answer within --timeout");
  EXPECT_GE(stats.failed, 1u);
  EXPECT_EQ(stats.checks(), 3u);
}

}  // namespace
}  // namespace sluice::load
