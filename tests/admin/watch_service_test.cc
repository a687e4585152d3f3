// Admin.Watch, called by a generated client.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/admin.grpc.pb.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/watch_service.h"
#include "rpc/http2/server.h"
#include "service/rate_limiter_service.h"
#include "store/memory/memory_store.h"
#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class WatchServiceTest : public testing::Test {
 protected:
  // A call of Watch.
  class Watcher {
   public:
    explicit Watcher(v1::Admin::Stub& admin, const std::string& authorization = "") {
      context_.set_deadline(std::chrono::system_clock::now() + seconds(60));
      if (!authorization.empty()) context_.AddMetadata("authorization", authorization);
      reader_ = admin.Watch(&context_, {});
    }
    ~Watcher() { Leave(); }

    // Fails the test if the call ends.
    v1::WatchFrame Next() {
      v1::WatchFrame frame;
      EXPECT_TRUE(reader_->Read(&frame)) << "the call has ended";
      return frame;
    }
    // Waits for the first frame. Returns false if the call was refused.
    bool Started() {
      v1::WatchFrame frame;
      return reader_->Read(&frame);
    }
    // Waits for the end of the call.
    grpc::Status End() {
      for (v1::WatchFrame frame; reader_->Read(&frame);) {
      }
      return std::exchange(reader_, nullptr)->Finish();
    }
    void Leave() {
      context_.TryCancel();
      if (reader_) End();
    }

   private:
    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<v1::WatchFrame>> reader_;
  };

  // Stops the worker before the handlers are destroyed, because its tasks use them.
  ~WatchServiceTest() override {
    worker_.Stop();
    server_.reset();
    threads_.Stop();
  }

  void Start(int rules = 1, WatchService::Options options = {},
             AdminAccess access = {.trusted_listener = true}) {
    threads_.Start();
    Domain shop{.name = "shop", .rules = {}};
    for (int i = 0; i < rules; ++i) {
      Rule rule{.name = "rule-" + std::to_string(i), .per = {{.attribute = "user"}}};
      rule.limits.limits = {FixedWindow{.limit = 2, .window = seconds(60)}};
      shop.rules.push_back(rule);
    }
    limiter_.SetRules(RuleIndex::Build({shop}, {}).value());
    watch_ = std::make_unique<WatchService>(
        WatchService::Dependencies{.limiter = limiter_, .metrics = metrics_, .worker = worker_},
        options);
    rpc::Methods methods;
    rate_limiter_.AddTo(methods);
    watch_->AddTo(methods, std::move(access));
    server_ =
        rpc::http2::Server::Start(threads_, std::move(methods), {.address = address_}).value();
    const auto channel =
        grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials());
    admin_ = v1::Admin::NewStub(channel);
    limits_ = v1::RateLimiter::NewStub(channel);
  }

  void Check(const std::string& user = "ada") {
    grpc::ClientContext context;
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    (*request.mutable_attributes())["user"] = user;
    v1::CheckLimitResponse response;
    ASSERT_TRUE(limits_->CheckLimit(&context, request, &response).ok());
  }

  const test::CapturedLog log_;
  const test::TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "grpc.sock"};
  MetricsRegistry metrics_;
  ManualClock clock_{Time(seconds(1'000'000))};
  MemoryStore store_{clock_, {}};
  Fallback fallback_{clock_};
  Limiter limiter_{{.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_},
                   {}};
  RateLimiterService rate_limiter_{limiter_};
  Worker worker_;
  std::unique_ptr<WatchService> watch_;
  net::IoThreads threads_{2};
  std::unique_ptr<rpc::http2::Server> server_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<v1::RateLimiter::Stub> limits_;
};

// A check from before the watch is in the rule's metrics, but in no frame.
TEST_F(WatchServiceTest, ChecksDuringTheWatch_AreCountedOnceInFrames) {
  Start();
  Check("bob");
  Watcher watcher(*admin_);
  EXPECT_EQ(watcher.Next().rules_size(), 0);
  for (int i = 0; i < 3; ++i) Check();
  std::uint64_t allowed = 0, denied = 0, timed = 0, asked = 0;
  const auto add = [&](const v1::WatchFrame& frame) {
    EXPECT_GT(frame.period().seconds() + frame.period().nanos(), 0);
    for (const auto& rule : frame.rules()) {
      EXPECT_EQ(rule.domain() + "/" + rule.rule(), "shop/rule-0");
      EXPECT_FALSE(rule.shadow());
      ASSERT_EQ(rule.decisions_size(), 1);
      EXPECT_EQ(rule.decisions(0).source(), v1::SOURCE_STORE);
      allowed += rule.decisions(0).allowed();
      denied += rule.decisions(0).denied();
    }
    EXPECT_EQ(frame.check_latency().counts_size(), frame.check_latency().bounds_size() + 1);
    for (const auto count : frame.check_latency().counts()) timed += count;
    for (const auto count : frame.store_latency().counts()) asked += count;
    EXPECT_FALSE(frame.store().redis());
  };
  while (allowed + denied < 3 && !HasFailure()) add(watcher.Next());
  add(watcher.Next());
  EXPECT_EQ(allowed, 2U);
  EXPECT_EQ(denied, 1U);
  EXPECT_EQ(timed, 3U);
  EXPECT_EQ(asked, 3U);
}

TEST_F(WatchServiceTest, TwoWatchers_GetTheSameFrames) {
  Start();
  Watcher first(*admin_), second(*admin_);
  const auto time = [](const v1::WatchFrame& frame) {
    return frame.time().seconds() * 1e9 + frame.time().nanos();
  };
  double a = time(first.Next()), b = time(second.Next());
  while (a != b && !HasFailure()) a < b ? a = time(first.Next()) : b = time(second.Next());
  EXPECT_EQ(a, b);
}

TEST_F(WatchServiceTest, TooManyWatchers_AreRefusedUntilOneLeaves) {
  Start();
  std::vector<std::unique_ptr<Watcher>> watchers;
  while (watchers.size() < WatchService::kMaxWatchers) {
    watchers.push_back(std::make_unique<Watcher>(*admin_));
    watchers.back()->Next();
  }
  const grpc::Status refused = Watcher(*admin_).End();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("end a `sluice top` or `sluice console`"));
  watchers.pop_back();
  EXPECT_TRUE(test::WaitUntil(seconds(60), [&] {
    Watcher next(*admin_);
    return next.Started();
  }));
}

TEST_F(WatchServiceTest, Keys_ByDefault_AreSentAsDigests) {
  const std::string key = "sluice:{shop/rule-0/user=ada}:fixed_window:1m";
  Start();
  Watcher watcher(*admin_);
  watcher.Next();
  for (int i = 0; i < 5; ++i) Check();
  v1::WatchFrame frame;
  do frame = watcher.Next();
  while ((frame.keys().denied().empty() || frame.keys().denied(0).count() < 3) && !HasFailure());
  ASSERT_EQ(frame.keys().denied_size(), 1);
  const v1::WatchedKey& denied = frame.keys().denied(0);
  EXPECT_EQ(denied.domain() + "/" + denied.rule(), "shop/rule-0");
  EXPECT_EQ(denied.key(), "");
  EXPECT_EQ(denied.digest(), Sha256Hex128(key));
  EXPECT_EQ(denied.error(), 0U);
  EXPECT_EQ(frame.keys().used(0).count(), 2U);
  EXPECT_GT(frame.keys().since().seconds(), 0);
}

TEST_F(WatchServiceTest, SettingShowKeys_FramesHaveKeys) {
  Start(1, {.show_keys = true});
  Watcher watcher(*admin_);
  watcher.Next();
  Check();
  v1::WatchFrame frame;
  do frame = watcher.Next();
  while (frame.keys().used().empty() && !HasFailure());
  EXPECT_EQ(frame.keys().used(0).key(), "sluice:{shop/rule-0/user=ada}:fixed_window:1m");
}

TEST_F(WatchServiceTest, LastWatcherLeaves_KeysAreNoLongerCounted) {
  Start();
  {
    Watcher watcher(*admin_);
    watcher.Next();
    Check();
    EXPECT_FALSE(limiter_.top_keys().Read(1).used.empty());
  }
  EXPECT_TRUE(test::WaitUntil(seconds(60), [this] {
    Check("bob");
    return limiter_.top_keys().Read(1).used.empty();
  }));
}

TEST_F(WatchServiceTest, SettingTopKeys_KeysAreCountedBeforeAnybodyWatches) {
  Start(1, {.top_keys = true});
  Check();
  Watcher watcher(*admin_);
  EXPECT_EQ(watcher.Next().keys().used_size(), 1);
}

TEST_F(WatchServiceTest, ManyRules_AThousandAreSent_TheOthersAreCounted) {
  Start(1'100);
  Watcher watcher(*admin_);
  watcher.Next();
  Check();
  v1::WatchFrame frame;
  do frame = watcher.Next();
  while (frame.rules().empty() && !HasFailure());
  EXPECT_EQ(frame.rules_size(), 1'000);
  EXPECT_EQ(frame.rules_left_out(), 100U);
}

TEST_F(WatchServiceTest, WithoutAccess_IsRefused) {
  Start(1, {}, {});
  EXPECT_EQ(Watcher(*admin_).End().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(WatchServiceTest, TokenIsReplaced_TheCallEnds) {
  Secret token;
  token.Set("first-token");
  Start(1, {}, {.token = &token});
  Watcher watcher(*admin_, "Bearer first-token");
  watcher.Next();
  token.Set("second-token");
  EXPECT_EQ(watcher.End().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(WatchServiceTest, ServerStops_TheCallEndsAtOnce) {
  Start();
  Watcher watcher(*admin_);
  watcher.Next();
  const auto begun = std::chrono::steady_clock::now();
  server_->Stop(seconds(60));
  const grpc::Status status = watcher.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(30));
}

}  // namespace
}  // namespace sluice
