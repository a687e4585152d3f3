// Runs against a gRPC server with scripted answers.
#include "load/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tests/load/fake_limiter.h"
#include "tests/load/run.h"
#include "tests/support/wait_until.h"

namespace sluice::load {
namespace {

using sluice::test::FakeLimiter;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Fills in `response` as if the server's store had decided.
void Decide(const v1::CheckLimitRequest& request, v1::CheckLimitResponse& response,
            v1::Decision decision = v1::DECISION_ALLOWED) {
  response.set_decision(decision);
  response.set_source(v1::SOURCE_STORE);
  response.set_request_id(request.request_id());
  response.add_limits()->set_rule("per-user");
}

Plan PlanFor(const FakeLimiter& server) {
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  return {.target = {.address = server.address()},
          .request = request.SerializeAsString(),
          .key_name = "user",
          .keys = 10,
          .in_flight = 4,
          .connections = 2,
          .duration = milliseconds(100),
          .timeout = seconds(20)};
}

// Calls wait in Pass until the test opens the gate.
class Gate {
 public:
  ~Gate() { Open(); }
  void Pass() {
    const MutexLock lock(mutex_);
    ++arrived_;
    changed_.NotifyAll();
    changed_.Wait(mutex_, [this] { return open_; });
  }
  bool WaitForArrivals(int count) {
    const MutexLock lock(mutex_);
    return changed_.WaitUntil(mutex_, SteadyNow() + seconds(20), [&] { return arrived_ >= count; });
  }
  int arrived() {
    const MutexLock lock(mutex_);
    return arrived_;
  }
  void Open() {
    const MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int arrived_ = 0;
  bool open_ = false;
};

TEST(Generator, Unary_EveryAnswerIsCountedByItsOutcome) {
  std::atomic<std::uint64_t> calls = 0;
  FakeLimiter server({.check = [&](const auto& request, v1::CheckLimitResponse& response) {
    const auto call = calls++;
    if (call % 4 == 0) return grpc::Status(grpc::UNAVAILABLE, "the store in Z\u00fcrich is down");
    Decide(request, response, call % 4 == 1 ? v1::DECISION_DENIED : v1::DECISION_ALLOWED);
    if (call % 4 == 1) response.set_source(v1::SOURCE_DENY_CACHE);
    return grpc::Status::OK;
  }});
  const LoadStats stats = StatsOf(PlanFor(server));
  ASSERT_GE(calls, 8u);
  EXPECT_EQ(stats.checks(), calls);
  EXPECT_EQ(stats.failed, (calls + 3) / 4);
  EXPECT_EQ(stats.denied, (calls + 2) / 4);
  EXPECT_EQ(stats.sources[v1::SOURCE_DENY_CACHE], stats.denied);
  EXPECT_EQ(stats.sources[v1::SOURCE_STORE], stats.allowed);
  EXPECT_EQ(stats.errors.at(GrpcStatus::kUnavailable).count, stats.failed);
  EXPECT_EQ(stats.errors.at(GrpcStatus::kUnavailable).first, "the store in Z\u00fcrich is down");
  EXPECT_EQ(stats.latencies.count(), stats.answered());
  EXPECT_EQ(stats.messages, calls);
  EXPECT_GE(stats.elapsed, milliseconds(1));
  EXPECT_GT(stats.cpu.count(), 0);
}

TEST(Generator, Keys_AllAreSent) {
  Mutex mutex;
  std::set<std::string> keys;
  FakeLimiter server({.check = [&](const auto& request, auto& response) {
    Decide(request, response);
    const MutexLock lock(mutex);
    keys.insert(request.attributes().at("user"));
    return grpc::Status::OK;
  }});
  EXPECT_EQ(StatsOf(PlanFor(server)).failed, 0u);
  EXPECT_EQ(keys.size(), 10u);
  EXPECT_EQ(*keys.begin(), "1000000");
}

TEST(Generator, ClosedLoop_KeepsTheGivenNumberInFlight) {
  Gate gate;
  FakeLimiter server({.check = [&](const auto& request, auto& response) {
    gate.Pass();
    Decide(request, response);
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server);
  plan.in_flight = 7;
  plan.connections = 3;
  plan.threads = 2;
  plan.duration = seconds(20);
  const auto generator = Begin(plan);
  EXPECT_TRUE(gate.WaitForArrivals(7));
  EXPECT_FALSE(generator->WaitUntil(SteadyNow() + milliseconds(50)));  // time for an eighth message
  EXPECT_EQ(gate.arrived(), 7);
  gate.Open();
  EXPECT_TRUE(gate.WaitForArrivals(100));
  generator->Stop();
  EXPECT_TRUE(generator->WaitUntil(SteadyNow() + seconds(20)));
  EXPECT_EQ(generator->stats().allowed, static_cast<std::uint64_t>(gate.arrived()));
}

TEST(Generator, MoreInFlightThanTheServerAllows_IsRefused) {
  FakeLimiter server({.max_streams = 3});
  Plan plan = PlanFor(server);
  plan.in_flight = 7;
  const auto generator = Generator::Start(plan);
  ASSERT_FALSE(generator);
  EXPECT_EQ(generator.error().message,
            "--in-flight 7 with --connections 2: the server allows 3 calls per connection");
}

TEST(Generator, Batch_EachCheckIsCountedByItsResultOrError) {
  FakeLimiter server({.checks = [](const auto& request, v1::CheckLimitsResponse& response) {
    for (int i = 0; i < request.checks_size(); ++i) {
      auto& result = *response.add_results();
      if (i == 0) {
        result.mutable_error()->set_code(grpc::RESOURCE_EXHAUSTED);
      } else {
        Decide(request.checks(i), *result.mutable_response());
      }
    }
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kBatch;
  plan.checks = 10;
  const LoadStats stats = StatsOf(plan);
  ASSERT_GE(stats.messages, 4u);
  EXPECT_EQ(stats.allowed, stats.messages * 9);
  EXPECT_EQ(stats.errors.at(GrpcStatus::kResourceExhausted).count, stats.messages);
  EXPECT_EQ(stats.latencies.count(), stats.messages);
}

TEST(Generator, BatchWithTooFewResults_FailsAsAWhole) {
  FakeLimiter server({.checks = [](const auto& request, v1::CheckLimitsResponse& response) {
    Decide(request.checks(0), *response.add_results()->mutable_response());
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kBatch;
  plan.checks = 10;
  const LoadStats stats = StatsOf(plan);
  EXPECT_EQ(stats.answered(), 0u);
  EXPECT_EQ(stats.failed, stats.messages * 10);
  EXPECT_EQ(stats.errors.at(GrpcStatus::kInternal).first, "1 results for 10 checks");
}

// Waits for `gather` or more checks, then answers them in reverse order, three per frame.
grpc::Status AnswerBackwards(FakeLimiter::Stream& stream, std::size_t gather) {
  std::vector<v1::CheckLimitRequest> waiting;
  v1::CheckLimitsRequest frame;
  while (stream.Read(&frame)) {
    for (const auto& check : frame.checks()) waiting.push_back(check);
    if (waiting.size() < gather) continue;
    std::reverse(waiting.begin(), waiting.end());
    v1::CheckLimitsResponse response;
    for (const auto& check : waiting) {
      Decide(check, *response.add_results()->mutable_response());
      if (response.results_size() < 3) continue;
      stream.Write(response);
      response.Clear();
    }
    stream.Write(response);
    waiting.clear();
  }
  return grpc::Status::OK;
}

TEST(Generator, Stream_AnswersInAnyOrderAndGrouping_AreCounted) {
  FakeLimiter server({.stream = [](auto& stream) { return AnswerBackwards(stream, 10); }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kStream;
  plan.checks = 5;
  plan.rate = 5000;  // 250 checks per stream, a multiple of 10, so that all are answered
  plan.in_flight = kMaxInFlight;
  const LoadStats stats = StatsOf(plan);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_EQ(stats.allowed, 500u);
  EXPECT_EQ(stats.latencies.count(), 100u);
}

TEST(Generator, Stream_AllConnectionsShareTheNumberInFlight) {
  // Answers when each of the two streams has received its share, 3 messages.
  std::atomic<int> full = 0;
  FakeLimiter server({.stream = [&](FakeLimiter::Stream& stream) {
    v1::CheckLimitsRequest frame;
    v1::CheckLimitsResponse response;
    for (int i = 0; i < 3; ++i) {
      stream.Read(&frame);
      for (const auto& check : frame.checks()) {
        Decide(check, *response.add_results()->mutable_response());
      }
    }
    ++full;
    EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return full == 2; }));
    stream.Write(response);
    return AnswerBackwards(stream, 1);
  }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kStream;
  plan.checks = 2;
  plan.in_flight = 6;
  EXPECT_EQ(StatsOf(plan).failed, 0u);
}

TEST(Generator, StreamAnswersAnUnknownRequest_IsLost) {
  FakeLimiter server({.stream = [](FakeLimiter::Stream& stream) {
    v1::CheckLimitsRequest frame;
    stream.Read(&frame);
    v1::CheckLimitsResponse response;
    response.add_results()->mutable_response()->set_request_id("elsewhere");
    Decide(frame.checks(0), *response.add_results()->mutable_response());
    stream.Write(response);
    while (stream.Read(&frame)) {
    }
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kStream;
  const LoadStats stats = StatsOf(plan);
  EXPECT_EQ(stats.answered(), 0u);
  EXPECT_EQ(stats.errors.at(GrpcStatus::kInternal).first,
            "a result with the unknown request_id \"elsewhere\"");
  EXPECT_EQ(stats.lost, "INTERNAL: a result with the unknown request_id \"elsewhere\"");
}

TEST(Generator, StreamEndedByTheServer_UnansweredChecksFail) {
  FakeLimiter server({.stream = [](FakeLimiter::Stream& stream) {
    v1::CheckLimitsRequest frame;
    stream.Read(&frame);
    return grpc::Status(grpc::INVALID_ARGUMENT, "checks: too many");
  }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kStream;
  plan.checks = 16;
  plan.duration = seconds(20);
  const LoadStats stats = StatsOf(plan);  // ends with the streams, not after 20 s
  EXPECT_EQ(stats.failed, 4u * 16);
  EXPECT_EQ(stats.errors.at(3).first, "checks: too many");
  EXPECT_EQ(stats.lost, "INVALID_ARGUMENT: checks: too many");
}

TEST(Generator, OpenLoop_KeepsItsRate) {
  FakeLimiter server({.checks = [](const auto& request, v1::CheckLimitsResponse& response) {
    for (const auto& check : request.checks()) {
      Decide(check, *response.add_results()->mutable_response());
    }
    return grpc::Status::OK;
  }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kBatch;
  plan.checks = 5;
  plan.rate = 2000;
  plan.in_flight = kMaxInFlight;
  plan.threads = 2;
  plan.warm_up = milliseconds(50);
  plan.duration = milliseconds(201);
  const LoadStats stats = StatsOf(plan);
  EXPECT_EQ(stats.messages, 81u);  // an odd number: the threads' shares differ
  EXPECT_EQ(stats.allowed, 405u);
  EXPECT_GE(stats.elapsed, milliseconds(195));  // the last message is due at 200 ms
}

TEST(Generator, OpenLoopWithFewMessages_KeepsItsRate) {
  FakeLimiter server({});
  Plan plan = PlanFor(server);
  plan.rate = 10;
  plan.in_flight = kMaxInFlight;
  plan.duration = milliseconds(200);  // two messages are due: at 0 and 100 ms
  const LoadStats stats = StatsOf(plan);
  EXPECT_EQ(stats.messages, 2u);
  EXPECT_GE(stats.elapsed, plan.duration);
  EXPECT_LE(stats.checks_per_second(), 10.0);
}

// 100 messages are due within 100 ms. None is answered before the gate opens.
LoadStats TallyOfStall(int max_streams) {
  Gate gate;
  FakeLimiter server({.check =
                          [&](const auto& request, auto& response) {
                            gate.Pass();
                            Decide(request, response);
                            return grpc::Status::OK;
                          },
                      .max_streams = max_streams});
  Plan plan = PlanFor(server);
  plan.connections = 1;
  plan.rate = 1000;
  plan.in_flight = kMaxInFlight;
  const auto generator = Begin(plan);
  EXPECT_FALSE(generator->WaitUntil(SteadyNow() + milliseconds(150)));  // the stall
  gate.Open();
  EXPECT_TRUE(generator->WaitUntil(SteadyNow() + seconds(30)));
  return generator->stats();
}

TEST(Generator, ServerStalls_LatencyCountsFromIntendedStart) {
  const LoadStats stats = TallyOfStall(0);
  EXPECT_EQ(stats.allowed, 100u);
  EXPECT_GE(stats.latencies.Quantile(0.01), milliseconds(50));
  EXPECT_GE(stats.latencies.max(), milliseconds(149));
}

TEST(Generator, ServerHoldsMessagesBack_LatencyStillCountsFromIntendedStart) {
  const LoadStats stats = TallyOfStall(2);  // 98 messages cannot be sent before the gate opens
  EXPECT_EQ(stats.allowed, 100u);
  EXPECT_EQ(stats.messages, 100u);
  EXPECT_GE(stats.latencies.Quantile(0.01), milliseconds(50));
  EXPECT_LT(stats.late, 50u);  // not the generator's fault
}

TEST(Generator, MessagesUnansweredAtTheEnd_FailWithDeadlineExceeded) {
  Gate gate;
  FakeLimiter server({.check =
                          [&](const auto&, auto&) {
                            gate.Pass();
                            return grpc::Status::OK;
                          },
                      .max_streams = 2});
  Plan plan = PlanFor(server);
  plan.rate = 1000;
  plan.in_flight = kMaxInFlight;
  plan.timeout = milliseconds(200);
  const LoadStats stats = StatsOf(plan);
  gate.Open();
  EXPECT_EQ(stats.failed, 100u);  // both sent and unsent ones
  EXPECT_EQ(stats.errors.at(GrpcStatus::kDeadlineExceeded).count, 100u);
  EXPECT_EQ(stats.lost, "");
}

TEST(Generator, RateTooHighForTheGenerator_ReportsLateness) {
  FakeLimiter server({.checks = [](const auto&, auto&) { return grpc::Status::OK; }});
  Plan plan = PlanFor(server);
  plan.rpc = Rpc::kBatch;
  plan.rate = 20'000'000;  // messages a second
  plan.in_flight = kMaxInFlight;
  plan.duration = milliseconds(20);
  plan.timeout = milliseconds(200);
  const LoadStats stats = StatsOf(plan);
  EXPECT_GT(stats.late, stats.messages / 2);
  EXPECT_GE(stats.latest, milliseconds(10));
}

TEST(Generator, Stop_EndsLongBeforeTheDuration) {
  FakeLimiter server({.check = [](const auto& request, auto& response) {
    Decide(request, response);
    return grpc::Status::OK;
  }});
  for (const double rate : {0.0, 500.0}) {
    Plan plan = PlanFor(server);
    plan.rate = rate;
    plan.in_flight = 100;
    plan.duration = std::chrono::hours(1);
    const auto generator = Begin(plan);
    EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return generator->progress().allowed > 0; }));
    generator->Stop();
    EXPECT_TRUE(generator->WaitUntil(SteadyNow() + seconds(20)));
    EXPECT_GT(generator->stats().allowed, 0u);
    EXPECT_EQ(generator->stats().failed, 0u);
  }
}

}  // namespace
}  // namespace sluice::load
