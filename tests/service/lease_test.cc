// Leases over gRPC: taken by CheckLimit, renewed by RenewLease and released by ReleaseLease.
#include <gmock/gmock.h>

#include <thread>

#include "tests/service/serving_fixture.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Renewed = Reply<v1::RenewLeaseResponse>;
using Released = Reply<v1::ReleaseLeaseResponse>;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
constexpr auto kNotFound = grpc::StatusCode::NOT_FOUND;
constexpr auto kOk = grpc::StatusCode::OK;

// One job at a time for each user. A job's lease ends after 30 s unless it is renewed.
class LeaseTest : public ServingTest {
 protected:
  LeaseTest() {
    Rule rule{.name = "jobs", .per = {{.attribute = "user"}}};
    rule.limits.limits = {Concurrency{.limit = 1, .ttl = seconds(30)}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  v1::CheckLimitResponse Check(const std::string& user = "ann") {
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    (*request.mutable_attributes())["user"] = user;
    const auto reply = Call(&v1::RateLimiter::Stub::CheckLimit, request);
    EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
    return reply.response;
  }

  std::string Take(const std::string& user = "ann") { return Check(user).lease().id(); }
  bool IsFree(const std::string& user = "ann") {
    return Check(user).decision() == v1::DECISION_ALLOWED;
  }

  Renewed Renew(const std::string& id) {
    v1::RenewLeaseRequest request;
    request.set_lease_id(id);
    return Call(&v1::RateLimiter::Stub::RenewLease, request);
  }
  Released Release(const std::string& id, v1::ReleaseLeaseRequest request = {}) {
    request.set_lease_id(id);
    return Call(&v1::RateLimiter::Stub::ReleaseLease, request);
  }
};

TEST_F(LeaseTest, Check_SlotFree_AnswersWithALease) {
  const auto taken = Check();
  EXPECT_EQ(v1::DECISION_ALLOWED, taken.decision());
  EXPECT_THAT(taken.lease().id(),
              testing::SizeIs(testing::AllOf(testing::Gt(32), testing::Le(2048))));
  EXPECT_EQ(30, taken.lease().ttl().seconds());
  const auto denied = Check();
  EXPECT_EQ(v1::DECISION_DENIED, denied.decision());
  EXPECT_FALSE(denied.has_lease());
  EXPECT_EQ(30, denied.retry_after().seconds());
  EXPECT_NE(taken.lease().id(), Take("bob"));
}

TEST_F(LeaseTest, Renew_HeldLease_ExpiresOneTtlAfterTheRenewal) {
  const std::string id = Take();
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(seconds(20));
    const Renewed renewed = Renew(id);
    ASSERT_TRUE(renewed.status.ok()) << renewed.status.error_message();
    EXPECT_EQ(30, renewed.response.ttl().seconds());
  }
  clock_.Advance(seconds(29));
  EXPECT_FALSE(IsFree());
  clock_.Advance(seconds(1));
  EXPECT_TRUE(IsFree());
}

TEST_F(LeaseTest, Release_HeldLease_FreesItsSlot_SecondReleaseChangesNothing) {
  const std::string first = Take();
  EXPECT_EQ(kOk, Release(first).status.error_code());
  const std::string second = Take();
  EXPECT_NE("", second);
  EXPECT_EQ(kOk, Release(first).status.error_code());
  EXPECT_FALSE(IsFree()) << "the id of the first lease does not release the second";
}

TEST_F(LeaseTest, Renew_ReleasedOrExpiredLease_IsNotFoundAndNotTakenAgain) {
  const std::string released = Take();
  Release(released);
  EXPECT_EQ(kNotFound, Renew(released).status.error_code());
  EXPECT_TRUE(IsFree());

  const std::string expired = Take("bob");
  clock_.Advance(seconds(30));
  EXPECT_EQ(kNotFound, Renew(expired).status.error_code());
  EXPECT_EQ(kOk, Release(expired).status.error_code());
  EXPECT_TRUE(IsFree("bob"));
}

TEST_F(LeaseTest, MalformedId_IsInvalid) {
  const std::string id = Take();
  const std::string name = id.substr(0, id.find(' '));
  const std::string key = id.substr(id.find(' ') + 1);
  const std::string ids[] = {
      "",
      std::string(3'000, 'x'),
      id + " " + std::string(3'000, 'x'),
      name,
      name + " " + key + " " + key,
      name + " sluice:{shop/per-user/ann}:token_bucket:1s",
      name + " " + key + " sluice:{shop/per-user/ann}:fixed_window:1d",
      name + " other:" + key,
      name + " somebody-else's-key",
      id.substr(1),
      "3" + id.substr(1),
      std::string("2.\0", 3) + id.substr(3),
  };
  for (const std::string& bad : ids) {
    for (const auto& status : {Renew(bad).status, Release(bad).status}) {
      EXPECT_EQ(kInvalid, status.error_code()) << bad;
      EXPECT_THAT(status.error_message(), HasSubstr("lease_id")) << bad;
    }
  }
  EXPECT_EQ(kOk, Renew(id).status.error_code())
      << "malformed ids change neither the server nor the lease";
}

TEST_F(LeaseTest, HoldOutcomeAndDuration_ChangeALimitWithAdapt) {
  Rule rule{.name = "jobs"};
  rule.limits.limits = {
      Concurrency{.limit = 9,
                  .ttl = seconds(30),
                  .adapt = {.on = true, .min = 1, .latency = seconds(1), .share = 90}}};
  limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  const auto limit_now = [this] {
    v1::CheckLimitRequest peek;
    peek.set_domain("shop");
    peek.set_mode(v1::MODE_PEEK);
    return Call(&v1::RateLimiter::Stub::CheckLimit, peek).response.limits(0).limit();
  };
  const auto hold = [this](const v1::ReleaseLeaseRequest& ends) {
    const std::string id = Take();
    clock_.Advance(std::chrono::milliseconds(500));
    EXPECT_TRUE(Release(id, ends).status.ok());
  };
  v1::ReleaseLeaseRequest slow;
  slow.mutable_duration()->set_seconds(2);
  v1::ReleaseLeaseRequest overload;
  overload.set_hold_outcome(v1::HOLD_OUTCOME_OVERLOAD);
  for (const auto& ends : {slow, overload}) {
    // The limit rises above its peak only if at least four fifths of its slots are held. One held
    // slot is too few for a limit of 2.
    for (int i = 0; i < 20; ++i) hold({});
    EXPECT_EQ(limit_now(), 2u);
    for (int i = 0; i < 20; ++i) hold(ends);
    EXPECT_EQ(limit_now(), 1u);
  }
}

TEST_F(LeaseTest, BadHoldOutcomeOrDuration_IsInvalid_NothingIsReleased) {
  const std::string id = Take();
  v1::ReleaseLeaseRequest outcome;
  outcome.set_hold_outcome(static_cast<v1::HoldOutcome>(4));
  EXPECT_EQ(Release(id, outcome).status.error_message(),
            "hold_outcome: 4 is not known; allowed are 0 to 3");
  v1::ReleaseLeaseRequest duration;
  duration.mutable_duration()->set_seconds(-1);
  EXPECT_THAT(Release(id, duration).status.error_message(), HasSubstr("duration: -1 s"));
  EXPECT_FALSE(IsFree());
}

TEST_F(LeaseTest, MalformedBytes_AreInvalid) {
  for (const char* rpc : {"RenewLease", "ReleaseLease"}) {
    const std::string method = std::string("/sluice.v1.RateLimiter/") + rpc;
    for (const char* bytes : {"\x0a\x05x", "\x0a\x01\xff"}) {
      EXPECT_EQ(kInvalid, CallRaw(channel_, method, bytes).status.error_code()) << rpc;
    }
  }
}

TEST_F(LeaseTest, StoreFails_IsUnavailable_LeaseStaysHeld) {
  const std::string id = Take();
  store_.Hold();
  Renewed renewed;
  Released released;
  std::thread renewer([&] { renewed = Renew(id); });
  std::thread releaser([&] { released = Release(id); });
  ASSERT_TRUE(WaitUntil(seconds(10), [&] { return store_.held() == 2; }));
  store_.Fail(StoreFailure::kTimeout);
  renewer.join();
  releaser.join();
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, renewed.status.error_code());
  EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, released.status.error_code());
  EXPECT_THAT(renewed.status.error_message(), HasSubstr("timeout"));
  EXPECT_FALSE(IsFree());
}

// `count` renewals of one lease, sent at once.
class Renewals {
 public:
  Renewals(v1::RateLimiter::Stub& stub, const std::string& id, int count)
      : contexts_(count), replies_(count) {
    v1::RenewLeaseRequest request;
    request.set_lease_id(id);
    for (int i = 0; i < count; ++i) {
      readers_.push_back(stub.AsyncRenewLease(&contexts_[i], request, &queue_));
      readers_.back()->Finish(&replies_[i].response, &replies_[i].status, nullptr);
    }
  }

  ~Renewals() {
    for (auto& context : contexts_) context.TryCancel();
    Replies();
  }

  // Waits for all.
  const std::vector<Renewed>& Replies() {
    void* tag = nullptr;
    bool ok = false;
    for (; !readers_.empty(); readers_.pop_back()) EXPECT_TRUE(queue_.Next(&tag, &ok));
    return replies_;
  }

 private:
  grpc::CompletionQueue queue_;
  std::vector<grpc::ClientContext> contexts_;
  std::vector<Renewed> replies_;
  std::vector<std::unique_ptr<grpc::ClientAsyncResponseReader<v1::RenewLeaseResponse>>> readers_;
};

TEST_F(LeaseTest, ManyRenewalsAtOnceAndACheck_AreAllAnswered) {
  const std::string id = Take();
  store_.Hold();
  Renewals renewals(*stub_, id, 300);
  ASSERT_TRUE(WaitUntil(seconds(20), [&] { return store_.held() == 300; }));
  v1::CheckLimitResponse answer;
  std::thread checker([&] { answer = Check("bob"); });
  ASSERT_TRUE(WaitUntil(seconds(20), [&] { return store_.held() == 301; }));
  store_.Release();
  checker.join();
  EXPECT_EQ(v1::DECISION_ALLOWED, answer.decision());
  for (const Renewed& renewed : renewals.Replies()) {
    EXPECT_TRUE(renewed.status.ok()) << renewed.status.error_message();
    EXPECT_EQ(30, renewed.response.ttl().seconds());
  }
}

TEST_F(LeaseTest, Stop_WithOpenRenewals_WaitsForTheirAnswers) {
  const std::string id = Take();
  store_.Hold();
  Renewals renewals(*stub_, id, 100);
  ASSERT_TRUE(WaitUntil(seconds(20), [&] { return store_.held() == 100; }));
  std::thread stopper([&] { Stop(seconds(20)); });
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return !health_.serving(); }));
  store_.Release();
  for (const Renewed& renewed : renewals.Replies()) EXPECT_TRUE(renewed.status.ok());
  stopper.join();
}

TEST_F(LeaseTest, Stop_DrainTimePassed_CancelsRenewalsAndDoesNotWaitForTheStore) {
  const std::string id = Take();
  store_.Hold();
  Renewals renewals(*stub_, id, 100);
  ASSERT_TRUE(WaitUntil(seconds(20), [&] { return store_.held() == 100; }));
  Stop(milliseconds(1));
  for (const Renewed& renewed : renewals.Replies()) EXPECT_FALSE(renewed.status.ok());
}

}  // namespace
}  // namespace sluice::test
