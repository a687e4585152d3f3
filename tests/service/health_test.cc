// The Health service over real channels: what watchers are told, and what becomes of them.
#include <gmock/gmock.h>
#include <grpc/health/v1/health.grpc.pb.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "service/call_queue.h"
#include "service/health_service.h"
#include "service/health_watch_call.h"
#include "store/memory/memory_store.h"
#include "tests/service/serving_fixture.h"
#include "tests/support/wait_until.h"

namespace sluice {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kRateLimiter[] = "sluice.v1.RateLimiter";

HealthCheckRequest RequestFor(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

// A caller's end of a Watch.
class Watch {
 public:
  Watch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
        milliseconds timeout = seconds(60)) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    stream_ = Health::NewStub(channel)->Watch(&context_, RequestFor(service));
  }

  // The next status; UNKNOWN if the stream has ended.
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return stream_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
};

class HealthTest : public test::ServingTest {
 protected:
  HealthTest() {
    Rule rule{.name = "all"};
    rule.limits.limits = {FixedWindow{.limit = 100, .window = seconds(60)}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  // The server is told to stop, but goes on serving as long as `meanwhile` takes: a check is under
  // way.
  void StopMeanwhile(const std::function<void()>& meanwhile) {
    store_.Hold();
    std::thread caller([this] { EXPECT_TRUE(Check().ok()); });
    EXPECT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 1; }));
    std::thread stopper([this] { server_->Stop(seconds(60)); });
    meanwhile();
    store_.Release();
    caller.join();
    stopper.join();
  }

  grpc::Status Check() {
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    return Call(&v1::RateLimiter::Stub::CheckLimit, request).status;
  }
};

TEST_F(HealthTest, Watch_ServiceThatServes_IsToldNowAndWhenTheServerStops) {
  Watch server(channel_, "");
  Watch service(channel_, kRateLimiter);
  EXPECT_EQ(HealthCheckResponse::SERVING, server.Next());
  EXPECT_EQ(HealthCheckResponse::SERVING, service.Next());
  StopMeanwhile([&] {
    EXPECT_EQ(HealthCheckResponse::NOT_SERVING, server.Next());
    EXPECT_EQ(HealthCheckResponse::NOT_SERVING, service.Next());
    EXPECT_EQ(HealthCheckResponse::NOT_SERVING, Watch(channel_, kRateLimiter).Next());
  });
  for (Watch* watch : {&server, &service}) {
    EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch->Next()) << "it was told already";
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch->Finish().error_code());
  }
}

TEST_F(HealthTest, Watch_UnknownService_StaysOpenUntilTheServerStops) {
  Watch watch(channel_, "no.such.Service");
  EXPECT_EQ(HealthCheckResponse::SERVICE_UNKNOWN, watch.Next());
  server_->Stop(seconds(60));
  EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch.Finish().error_code());
}

TEST_F(HealthTest, Stop_WithOpenWatches_DoesNotWaitForThem) {
  Watch reader(channel_, "");
  Watch no_reader(channel_, kRateLimiter);
  EXPECT_EQ(HealthCheckResponse::SERVING, reader.Next());
  const SteadyTime begin = SteadyNow();
  server_->Stop(seconds(60));
  EXPECT_LT(SteadyNow() - begin, seconds(10));
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, reader.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, reader.Finish().error_code());
}

// Orchestrators go on asking for as long as there is a server.
TEST_F(HealthTest, Stop_WhileHealthIsChecked_DoesNotWaitUntilItIsNot) {
  std::atomic<bool> stopped = false;
  std::thread prober([&] {
    while (!stopped) test::Health(channel_);
  });
  const SteadyTime begin = SteadyNow();
  server_->Stop(seconds(60));
  EXPECT_LT(SteadyNow() - begin, seconds(10));
  stopped = true;
  prober.join();
}

TEST_F(HealthTest, BytesThatAreNoMessage_AreRefusedAndServedOn) {
  const std::string service = "/grpc.health.v1.Health/";
  const auto check = test::CallRaw(channel_, service + "Check", "\x0a\x05x");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, check.status.error_code());
  const auto watch = test::CallRaw(channel_, service + "Watch", "\x0a\x05x");
  EXPECT_EQ(grpc::StatusCode::INTERNAL, watch.status.error_code()) << watch.status.error_message();
  EXPECT_EQ(test::kServing, test::Health(channel_));
  EXPECT_EQ(HealthCheckResponse::SERVING, Watch(channel_, "").Next());
}

TEST_F(HealthTest, ChannelThatWatches_LeavesTheServerThatStops) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(R"({"healthCheckConfig": {"serviceName": "sluice.v1.RateLimiter"},
                                     "loadBalancingConfig": [{"round_robin": {}}]})");
  const auto channel =
      grpc::CreateCustomChannel(address_.ToString(), grpc::InsecureChannelCredentials(), arguments);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + seconds(10)));
  StopMeanwhile([&] {
    EXPECT_TRUE(test::WaitUntil(
        seconds(10), [&] { return channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE; }));
  });
}

TEST_F(HealthTest, WatchersComeAndGoWhileTheServerStops_NoneIsToldThatItServesAgain) {
  std::atomic<bool> stopped = false;
  std::atomic<int> told = 0;
  std::vector<std::thread> watchers;
  for (int i = 0; i < 4; ++i) {
    watchers.emplace_back([&] {
      bool serving = true;
      while (!stopped) {
        Watch watch(channel_, kRateLimiter);
        const auto status = watch.Next();
        watch.Cancel();
        EXPECT_FALSE(watch.Finish().ok());
        if (status == HealthCheckResponse::UNKNOWN) continue;  // the server has ended it first
        ++told;
        EXPECT_TRUE(serving || status == HealthCheckResponse::NOT_SERVING);
        serving = status == HealthCheckResponse::SERVING;
      }
    });
  }
  EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return told > 100; }));
  server_->Stop(seconds(2));
  stopped = true;
  for (auto& watcher : watchers) watcher.join();
}

// Health alone, on one queue that tells how many watches are open.
class WatchQueueTest : public testing::Test {
 protected:
  WatchQueueTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_.ToString(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    const std::vector<CallFactory> kinds = {
        [this](CallPool& pool) { return std::make_unique<HealthWatchCall>(pool, service_); }};
    queue_ = std::make_unique<CallQueue>(builder.AddCompletionQueue(), kinds, store_);
    server_ = builder.BuildAndStart();
    queue_->Start("grpc-0");
    channel_ = grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials());
  }
  ~WatchQueueTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Stop();
  }

  bool WaitUntilOpen(std::uint64_t watches) {
    return test::WaitUntil(seconds(10), [&] { return queue_->streams() == watches; });
  }

  const test::TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "grpc.sock"};
  HealthService service_;
  MemoryStore store_{Clock::System(), {}};
  std::unique_ptr<CallQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(WatchQueueTest, CallerLeaves_TheWatchIsOver) {
  for (const std::string name : {"", kRateLimiter, "no.such.Service"}) {
    Watch watch(channel_, name);
    ASSERT_NE(HealthCheckResponse::UNKNOWN, watch.Next());
    ASSERT_TRUE(WaitUntilOpen(1));
    watch.Cancel();
    ASSERT_TRUE(WaitUntilOpen(0)) << name;
  }
}

// A call that served one caller serves another: nothing of the first may reach the second.
TEST_F(WatchQueueTest, CallersHaveLeft_NobodyIsToldInTheirPlace) {
  constexpr int kMoreThanCalls = 50;
  for (int i = 0; i < kMoreThanCalls; ++i) {
    Watch watch(channel_, kRateLimiter);
    ASSERT_EQ(HealthCheckResponse::SERVING, watch.Next());
    watch.Cancel();
    ASSERT_TRUE(WaitUntilOpen(0));
  }
  Watch watch(channel_, "no.such.Service");
  ASSERT_EQ(HealthCheckResponse::SERVICE_UNKNOWN, watch.Next());
  service_.StopServing();
  queue_->EndStreams();
  EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch.Finish().error_code());
}

TEST_F(WatchQueueTest, DeadlinePasses_TheWatchIsOver) {
  Watch watch(channel_, "", milliseconds(500));
  EXPECT_EQ(HealthCheckResponse::SERVING, watch.Next());
  EXPECT_TRUE(WaitUntilOpen(0));
}

TEST_F(WatchQueueTest, StreamsEnd_TheLastStatusIsTold) {
  Watch watch(channel_, kRateLimiter);
  ASSERT_EQ(HealthCheckResponse::SERVING, watch.Next());
  service_.StopServing();
  queue_->EndStreams();
  EXPECT_TRUE(WaitUntilOpen(0));
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, watch.Next());
  EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch.Finish().error_code());
}

}  // namespace
}  // namespace sluice
