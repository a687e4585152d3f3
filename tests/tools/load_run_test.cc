// Runs of checks: their number, their bound, their tally, and that a stall cannot hide.
#include "tools/load_run.h"

#include <atomic>

#include <gtest/gtest.h>

#include "client/duration.h"
#include "tests/support/wait_until.h"
#include "tests/tools/fake_server.h"

namespace sluice::tools {
namespace {

using sluice::test::FakeServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

LoadTally Finish(LoadRun& run) {
  EXPECT_TRUE(run.WaitUntil(SteadyNow() + seconds(30)));
  return run.tally();
}

TEST(LoadRun, EveryCheck_TalliedByItsOutcome) {
  std::atomic<int> calls = 0;
  FakeServer server([&](const auto&, v1::CheckLimitResponse& response) {
    const int call = calls++;
    if (call < 3) return grpc::Status(grpc::INVALID_ARGUMENT, "domain is empty");
    if (call < 5) return grpc::Status(grpc::UNAVAILABLE, "the store is away");
    response.set_decision(call < 15 ? v1::DECISION_ALLOWED : v1::DECISION_DENIED);
    return grpc::Status::OK;
  });
  Client client(server.address());
  LoadRun run(client, {}, {.checks = 100, .concurrency = 4, .timeout = seconds(10)});
  const LoadTally tally = Finish(run);
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(tally.finished(), 100u);
  EXPECT_EQ(tally.allowed, 10u);
  EXPECT_EQ(tally.denied, 85u);
  EXPECT_EQ(tally.failed, 5u);
  EXPECT_EQ(tally.latencies.count(), 95u);
  ASSERT_EQ(tally.errors.size(), 2u);
  EXPECT_EQ(tally.errors.at(ErrorCode::kInvalidArgument).count, 3u);
  EXPECT_EQ(tally.errors.at(ErrorCode::kInvalidArgument).first, "domain is empty");
  EXPECT_EQ(tally.errors.at(ErrorCode::kUnavailable).count, 2u);
}

TEST(LoadRun, Concurrency_ReachedAndNeverPassed) {
  std::atomic<int> arrived = 0;
  std::atomic<bool> held = true;
  FakeServer server([&](const auto&, auto&) {
    ++arrived;
    arrived.notify_all();
    held.wait(true);
    return grpc::Status::OK;
  });
  Client client(server.address());
  LoadRun run(client, {}, {.checks = 60, .concurrency = 3, .timeout = seconds(10)});
  for (int seen = arrived; seen < 3; seen = arrived) arrived.wait(seen);
  EXPECT_FALSE(run.WaitUntil(SteadyNow() + milliseconds(50)));  // time for a fourth to come
  EXPECT_EQ(arrived, 3);
  held = false;
  held.notify_all();
  EXPECT_EQ(Finish(run).failed, 0u);
  EXPECT_EQ(arrived, 60);
}

TEST(LoadRun, Rate_NotPassed) {
  FakeServer server([](const auto&, auto&) { return grpc::Status::OK; });
  Client client(server.address());
  LoadRun run(client, {}, {.checks = 51, .concurrency = 100, .rate = 500, .timeout = seconds(10)});
  EXPECT_GE(Finish(run).elapsed, milliseconds(100));  // the last is due 50 / 500 s after the first
}

TEST(LoadRun, ServerStallsUnderRate_LatencyCountsFromIntendedStart) {
  std::atomic<bool> stalled = true;
  FakeServer server([&](const auto&, auto&) {
    stalled.wait(true);
    return grpc::Status::OK;
  });
  Client client(server.address());
  // All 50 are due within 50 ms, but only one can be under way, and none is answered for 150 ms.
  LoadRun run(client, {}, {.checks = 50, .concurrency = 1, .rate = 1000, .timeout = seconds(10)});
  EXPECT_FALSE(run.WaitUntil(SteadyNow() + milliseconds(150)));
  stalled = false;
  stalled.notify_all();
  EXPECT_GE(Finish(run).latencies.Quantile(0.02), milliseconds(99));
}

// Answers that the caller may go on after `wait`.
FakeServer::Answer AllowAfter(Duration wait) {
  return [wait](const auto&, v1::CheckLimitResponse& response) {
    response.set_decision(v1::DECISION_ALLOWED);
    *response.mutable_wait() = ToProto(wait);
    return grpc::Status::OK;
  };
}

TEST(LoadRun, Sleep_EachCallerWaitsAsAnswersSay) {
  FakeServer server(AllowAfter(milliseconds(20)));
  Client client(server.address());
  for (const std::size_t callers : {1, 2, 10}) {
    LoadRun run(client, {},
                {.checks = 10, .concurrency = callers, .sleep = true, .timeout = seconds(10)});
    const LoadTally tally = Finish(run);
    EXPECT_GE(tally.elapsed, milliseconds(20) * (10 / callers)) << callers;
    EXPECT_EQ(tally.waits.count(), 10u);
    EXPECT_EQ(tally.waited, milliseconds(200));
    EXPECT_EQ(tally.waits.max(), milliseconds(20));
  }
}

TEST(LoadRun, Sleep_WhoWakesFirstGoesFirst) {
  // The first of two callers is told to sleep for an hour: the other does all the rest.
  std::atomic<int> calls = 0;
  FakeServer server([&](const auto&, v1::CheckLimitResponse& response) {
    *response.mutable_wait() =
        ToProto(calls++ == 0 ? Duration(std::chrono::hours(1)) : Duration(1));
    return grpc::Status::OK;
  });
  Client client(server.address());
  LoadRun run(client, {}, {.checks = 20, .concurrency = 2, .sleep = true, .timeout = seconds(10)});
  EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return run.tally().finished() == 20; }));
  EXPECT_FALSE(run.WaitUntil(SteadyNow()));
  run.Stop();
  EXPECT_TRUE(run.WaitUntil(SteadyNow() + seconds(20)));
}

TEST(LoadRun, NoSleep_WaitsAreTalliedOnly) {
  FakeServer server(AllowAfter(std::chrono::hours(1)));
  Client client(server.address());
  LoadRun run(client, {}, {.checks = 10, .timeout = seconds(10)});
  EXPECT_EQ(Finish(run).waited, std::chrono::hours(10));
}

TEST(LoadRun, Stop_SendsNoMore) {
  FakeServer server([](const auto&, auto&) { return grpc::Status::OK; });
  Client client(server.address());
  LoadRun run(client, {}, {.checks = 1'000'000, .rate = 1, .timeout = seconds(10)});
  run.Stop();
  EXPECT_LT(Finish(run).finished(), 1'000'000u);
}

}  // namespace
}  // namespace sluice::tools
