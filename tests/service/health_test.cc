// The Health service over real channels: the statuses that watchers receive, and the end of
// watches.
#include <gmock/gmock.h>
#include <grpc/health/v1/health.grpc.pb.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

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

// The caller's side of a Watch.
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

class HealthTest : public test::ServingTest {};

TEST_F(HealthTest, Watch_KnownService_SendsItsStatusNowAndAtStop) {
  Watch server(channel_, "");
  Watch service(channel_, kRateLimiter);
  EXPECT_EQ(HealthCheckResponse::SERVING, server.Next());
  EXPECT_EQ(HealthCheckResponse::SERVING, service.Next());
  health_.StopServing();
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, server.Next());
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, service.Next());
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, Watch(channel_, kRateLimiter).Next());
  server_->Stop(seconds(60));
  for (Watch* watch : {&server, &service}) {
    EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch->Next()) << "a watcher gets each status once";
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch->Finish().error_code());
  }
}

TEST_F(HealthTest, SetReady_ChangesTheStatus_ButNotAfterAStop) {
  Watch watch(channel_, kRateLimiter);
  EXPECT_EQ(HealthCheckResponse::SERVING, watch.Next());
  health_.SetReady(false);
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, watch.Next());
  EXPECT_EQ(test::kNotServing, test::Health(channel_, kRateLimiter));
  health_.SetReady(true);
  EXPECT_EQ(HealthCheckResponse::SERVING, watch.Next());
  EXPECT_EQ(test::kServing, test::Health(channel_, kRateLimiter));
  health_.StopServing();
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, watch.Next());
  health_.SetReady(false);
  health_.SetReady(true);
  EXPECT_EQ(test::kNotServing, test::Health(channel_, kRateLimiter));
}

TEST_F(HealthTest, Check_ServiceOfTheServer_HasItsStatus_UnknownServiceHasNone) {
  for (const std::string name : {"", kRateLimiter, "grpc.health.v1.Health"}) {
    EXPECT_EQ(test::kServing, test::Health(channel_, name)) << name;
  }
  EXPECT_EQ("", test::Health(channel_, "no.such.Service"));
  health_.StopServing();
  EXPECT_EQ(test::kNotServing, test::Health(channel_, kRateLimiter));
}

TEST_F(HealthTest, Watch_UnknownService_StaysOpenUntilTheServerStops) {
  Watch watch(channel_, "no.such.Service");
  EXPECT_EQ(HealthCheckResponse::SERVICE_UNKNOWN, watch.Next());
  Stop(seconds(60));
  EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch.Finish().error_code());
}

TEST_F(HealthTest, Stop_WithOpenWatches_DoesNotWaitForThem) {
  Watch reader(channel_, "");
  Watch no_reader(channel_, kRateLimiter);
  EXPECT_EQ(HealthCheckResponse::SERVING, reader.Next());
  const SteadyTime begin = SteadyNow();
  Stop(seconds(60));
  EXPECT_LT(SteadyNow() - begin, seconds(10));
  EXPECT_EQ(HealthCheckResponse::NOT_SERVING, reader.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, reader.Finish().error_code());
}

// Orchestrators check health until the server has ended.
TEST_F(HealthTest, Stop_WhileHealthIsChecked_EndsWithTheDrain) {
  std::atomic<bool> stopped = false;
  std::thread prober([&] {
    while (!stopped) test::Health(channel_);
  });
  const SteadyTime begin = SteadyNow();
  Stop(seconds(1));
  EXPECT_LT(SteadyNow() - begin, seconds(10));
  stopped = true;
  prober.join();
}

TEST_F(HealthTest, MalformedBytes_AreRefused_LaterCallsAreServed) {
  const std::string service = "/grpc.health.v1.Health/";
  const auto check = test::CallRaw(channel_, service + "Check", "\x0a\x05x");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, check.status.error_code());
  const auto watch = test::CallRaw(channel_, service + "Watch", "\x0a\x05x");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, watch.status.error_code());
  for (const char* method : {"Check", "Watch"}) {
    testing::internal::CaptureStderr();
    const auto not_utf8 = test::CallRaw(channel_, service + method, "\x0a\x01\xff");
    EXPECT_EQ("", testing::internal::GetCapturedStderr()) << "a write to standard error may block";
    EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, not_utf8.status.error_code()) << method;
  }
  EXPECT_EQ(test::kServing, test::Health(channel_));
  EXPECT_EQ(HealthCheckResponse::SERVING, Watch(channel_, "").Next());
}

TEST_F(HealthTest, ChannelThatWatches_DisconnectsFromAServerThatStops) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(R"({"healthCheckConfig": {"serviceName": "sluice.v1.RateLimiter"},
                                     "loadBalancingConfig": [{"round_robin": {}}]})");
  const auto channel =
      grpc::CreateCustomChannel(address_.ToString(), grpc::InsecureChannelCredentials(), arguments);
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + seconds(10)));
  health_.StopServing();
  EXPECT_TRUE(test::WaitUntil(
      seconds(10), [&] { return channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE; }));
}

TEST_F(HealthTest, WatchersConnectWhileTheServerStops_StatusNeverReturnsToServing) {
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
        if (status == HealthCheckResponse::UNKNOWN) continue;  // ended without a status
        ++told;
        EXPECT_TRUE(serving || status == HealthCheckResponse::NOT_SERVING);
        serving = status == HealthCheckResponse::SERVING;
      }
    });
  }
  EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return told > 100; }));
  Stop(seconds(2));
  stopped = true;
  for (auto& watcher : watchers) watcher.join();
}

// A handler serves one caller after another: no state of the first may reach the second.
TEST_F(HealthTest, CanceledWatches_LeaveNoStateForTheNext) {
  for (int i = 0; i < 50; ++i) {
    Watch watch(channel_, kRateLimiter);
    ASSERT_EQ(HealthCheckResponse::SERVING, watch.Next());
    watch.Cancel();
    EXPECT_EQ(grpc::StatusCode::CANCELLED, watch.Finish().error_code());
  }
  Watch watch(channel_, "no.such.Service");
  ASSERT_EQ(HealthCheckResponse::SERVICE_UNKNOWN, watch.Next());
  Stop(seconds(60));
  EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch.Next());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, watch.Finish().error_code());
}

TEST_F(HealthTest, DeadlinePasses_WatchEnds) {
  Watch watch(channel_, "", milliseconds(200));
  EXPECT_EQ(HealthCheckResponse::SERVING, watch.Next());
  EXPECT_EQ(HealthCheckResponse::UNKNOWN, watch.Next());
  EXPECT_EQ(grpc::StatusCode::DEADLINE_EXCEEDED, watch.Finish().error_code());
}

}  // namespace
}  // namespace sluice
