// What callers notice when a sluiced stops.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sluice_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

// Callers of a sluiced. Each makes one call after another until the test stops it.
class Load {
 public:
  explicit Load(const std::shared_ptr<grpc::Channel>& channel) {
    for (int i = 0; i < 8; ++i) callers_.emplace_back([this, channel] { Call(channel); });
  }
  ~Load() { Leave(); }

  void Leave() {
    leaving_ = true;
    for (auto& caller : callers_) caller.join();
    callers_.clear();
  }
  int answered() const { return answered_; }
  // Calls that failed, except those that could not connect.
  int cut_off() const { return cut_off_; }

 private:
  void Call(const std::shared_ptr<grpc::Channel>& channel) {
    const auto stub = v1::RateLimiter::NewStub(channel);
    while (!leaving_) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + seconds(10));
      v1::CheckLimitRequest request;
      request.set_domain("shop");
      v1::CheckLimitResponse response;
      const auto status = stub->CheckLimit(&context, request, &response);
      const bool refused = status.error_message().find("failed to connect") != std::string::npos;
      if (!refused) ++(status.ok() ? answered_ : cut_off_);
    }
  }

  std::atomic<bool> leaving_ = false;
  std::atomic<int> answered_ = 0;
  std::atomic<int> cut_off_ = 0;
  std::vector<std::thread> callers_;
};

TEST(Sluiced_TermSignalUnderLoad, NoCallIsCutOff_ExitsWithZero) {
  SluiceServer server({.rules = "domain: shop\nrules: []\n", .flags = {"--drain", "20s"}});
  Load load(grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()));
  ASSERT_TRUE(WaitUntil(seconds(20), [&] { return load.answered() > 1'000; }));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(0, server.process().Wait(seconds(40))) << server.process().Output();
  load.Leave();
  EXPECT_EQ(0, load.cut_off());
}

TEST(Sluiced_TermSignalAndCallersThatStay, ExitsWithZeroWhenTheDrainIsOver) {
  SluiceServer server({.rules = "domain: shop\nrules: []\n", .flags = {"--drain", "100ms"}});
  Load load(grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()));
  ASSERT_TRUE(WaitUntil(seconds(20), [&] { return load.answered() > 1'000; }));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(0, server.process().Wait(seconds(20))) << server.process().Output();
}

}  // namespace
}  // namespace sluice::test
