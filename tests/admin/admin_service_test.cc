// The admin API, called by a generated client.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/admin.grpc.pb.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <string>
#include <thread>

#include "admin/admin_service.h"
#include "base/notification.h"
#include "rpc/http2/server.h"
#include "service/rate_limiter_service.h"
#include "store/memory/memory_store.h"
#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

RuleSet Rules() {
  Rule user{.name = "per-user", .location = "shop.yaml:3", .per = {{.attribute = "user"}}};
  user.limits.limits = {FixedWindow{.limit = 10, .window = seconds(60)}};
  Rule other{.name = "all", .location = "other.yaml:3"};
  other.limits.effect = Limits::Effect::kUnlimited;
  Rule brought{.name = "(override)"};  // for limits that Envoy's requests bring
  return {{.name = "shop", .rules = {user}}, {.name = "other", .rules = {other, brought}}};
}

// A rule source that reads nothing. Reload waits until the test notifies `go_on`.
class SlowRules final : public RuleSource {
 public:
  ReloadResult Reload() override {
    begun.Notify();
    go_on.Wait();
    return {.errors = {"shop.yaml:3:5: wrong"}, .rules = 2, .loaded_at = Time(seconds(7))};
  }

  std::optional<envoy::XdsStatus> xds() const override { return from_control_plane; }

  Notification begun;
  Notification go_on;
  std::optional<envoy::XdsStatus> from_control_plane;
};

class AdminServiceTest : public testing::Test {
 protected:
  AdminServiceTest() { threads_.Start(); }

  // Stops the worker before the handlers are destroyed, because its tasks use them.
  ~AdminServiceTest() override {
    rules_.go_on.Notify();
    worker_.Stop();
    server_.reset();
    threads_.Stop();
  }

  void Start(AdminAccess access = {.trusted_listener = true}) {
    limiter_.SetRules(RuleIndex::Build(Rules(), {}).value());
    rpc::Methods methods;
    rate_limiter_.AddTo(methods);
    AddAdmin(
        methods,
        {.limiter = limiter_, .access = std::move(access), .worker = worker_, .rules = &rules_});
    server_ =
        rpc::http2::Server::Start(threads_, std::move(methods), {.address = address_}).value();
    const auto channel =
        grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials());
    admin_ = v1::Admin::NewStub(channel);
    limits_ = v1::RateLimiter::NewStub(channel);
  }

  template <typename Response, typename Request>
  grpc::Status Call(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
                    const Request& request, Response& response,
                    const std::vector<std::string>& authorizations = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    for (const auto& value : authorizations) context.AddMetadata("authorization", value);
    return ((*admin_).*method)(&context, request, &response);
  }

  v1::CheckLimitResponse Check(std::uint64_t cost = 1) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    request.set_cost(cost);
    (*request.mutable_attributes())["user"] = "a";
    v1::CheckLimitResponse response;
    EXPECT_TRUE(limits_->CheckLimit(&context, request, &response).ok());
    return response;
  }

  template <typename Request>
  static Request ForUser() {
    Request request;
    request.set_domain("shop");
    (*request.mutable_attributes())["user"] = "a";
    return request;
  }

  const test::CapturedLog log_;
  const test::TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "grpc.sock"};
  MetricsRegistry metrics_;
  ManualClock clock_{Time(seconds(1'000'000))};
  MemoryStore store_{clock_, {}};
  SlowRules rules_;
  Fallback fallback_{clock_};
  Limiter limiter_{{.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_},
                   {}};
  RateLimiterService rate_limiter_{limiter_};
  Worker worker_;
  net::IoThreads threads_{2};
  std::unique_ptr<rpc::http2::Server> server_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<v1::RateLimiter::Stub> limits_;
};

TEST_F(AdminServiceTest, Explain_ReturnsRulesKeysAndState_TakesNothing) {
  Start();
  Check(4);
  v1::ExplainResponse response;
  for (int i = 0; i < 2; ++i) {
    response.Clear();
    ASSERT_TRUE(Call(&v1::Admin::Stub::Explain, ForUser<v1::ExplainRequest>(), response).ok());
  }
  EXPECT_EQ(response.response().decision(), v1::DECISION_ALLOWED);
  EXPECT_EQ(response.response().limits(0).remaining(), 6u);
  ASSERT_EQ(response.rules_size(), 1);
  EXPECT_EQ(response.rules(0).rule(), "per-user");
  EXPECT_EQ(response.rules(0).effect(), "enforced");
  ASSERT_EQ(response.rules(0).counters_size(), 1);
  EXPECT_EQ(response.rules(0).counters(0).key(), "sluice:{shop/per-user/user=a}:fixed_window:1m");
  EXPECT_EQ(response.rules(0).counters(0).status().remaining(), 6u);
}

TEST_F(AdminServiceTest, ResetLimit_ResetsTheCounter) {
  Start();
  Check(10);
  v1::ResetLimitResponse response;
  ASSERT_TRUE(Call(&v1::Admin::Stub::ResetLimit, ForUser<v1::ResetLimitRequest>(), response).ok());
  EXPECT_THAT(response.keys(),
              testing::ElementsAre("sluice:{shop/per-user/user=a}:fixed_window:1m"));
  EXPECT_EQ(Check().limits(0).remaining(), 9u);
  auto nobody = ForUser<v1::ResetLimitRequest>();
  nobody.set_rule("nobody");
  EXPECT_EQ(Call(&v1::Admin::Stub::ResetLimit, nobody, response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdminServiceTest, ListRulesAndExplain_ShowTheStateOfRulesByXds) {
  Start();
  v1::ListRulesResponse listed;
  ASSERT_TRUE(Call(&v1::Admin::Stub::ListRules, v1::ListRulesRequest(), listed).ok());
  EXPECT_FALSE(listed.has_xds());
  rules_.from_control_plane = envoy::XdsStatus{.connected = true,
                                               .refused = 3,
                                               .version = "7",
                                               .resources = 12,
                                               .accepted_at = SteadyNow() - std::chrono::hours(1),
                                               .last_refusal = "version 8: wrong"};
  ASSERT_TRUE(Call(&v1::Admin::Stub::ListRules, v1::ListRulesRequest(), listed).ok());
  v1::ExplainResponse explained;
  ASSERT_TRUE(Call(&v1::Admin::Stub::Explain, ForUser<v1::ExplainRequest>(), explained).ok());
  for (const v1::RulesByXds& xds : {listed.xds(), explained.xds()}) {
    EXPECT_TRUE(xds.connected());
    EXPECT_EQ("7", xds.version());
    EXPECT_GE(xds.age().seconds(), 3'600);
    EXPECT_LT(xds.age().seconds(), 3'660);
    EXPECT_EQ(12U, xds.resources());
    EXPECT_EQ(3U, xds.refused());
    EXPECT_EQ("version 8: wrong", xds.last_refusal());
  }
  rules_.from_control_plane->accepted_at.reset();
  ASSERT_TRUE(Call(&v1::Admin::Stub::ListRules, v1::ListRulesRequest(), listed).ok());
  EXPECT_FALSE(listed.xds().has_age());
}

TEST_F(AdminServiceTest, ListRules_ShowsTheRulesOfAllDomainsOrOfOne) {
  Start();
  v1::ListRulesResponse response;
  v1::ListRulesRequest request;
  ASSERT_TRUE(Call(&v1::Admin::Stub::ListRules, request, response).ok());
  EXPECT_EQ(response.rules_size(), 2);
  request.set_domain("shop");
  ASSERT_TRUE(Call(&v1::Admin::Stub::ListRules, request, response).ok());
  ASSERT_EQ(response.rules_size(), 1);
  EXPECT_EQ(response.rules(0).domain(), "shop");
  EXPECT_EQ(response.rules(0).rule(), "per-user");
  EXPECT_EQ(response.rules(0).location(), "shop.yaml:3");
  EXPECT_EQ(response.rules(0).yaml(),
            "name: per-user\nper: [user]\nlimits:\n"
            "  - {algorithm: fixed_window, limit: 10, window: 1m}\nmissing: skip\n");
}

// ListRules is not called, because it would wait: like ReloadRules, it runs on the only worker
// thread.
TEST_F(AdminServiceTest, ReloadRules_WhileItRuns_ChecksAndExplainAreServed) {
  Start();
  v1::ReloadRulesResponse response;
  grpc::Status status;
  std::thread operator_thread([&] { status = Call(&v1::Admin::Stub::ReloadRules, {}, response); });
  rules_.begun.Wait();
  EXPECT_EQ(Check().decision(), v1::DECISION_ALLOWED);
  v1::ExplainResponse explained;
  EXPECT_TRUE(Call(&v1::Admin::Stub::Explain, ForUser<v1::ExplainRequest>(), explained).ok());
  rules_.go_on.Notify();
  operator_thread.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(response.applied());
  EXPECT_THAT(response.errors(), testing::ElementsAre("shop.yaml:3:5: wrong"));
  EXPECT_EQ(response.rules(), 2u);
  EXPECT_EQ(response.loaded_at().seconds(), 7);
}

TEST_F(AdminServiceTest, PublicPortWithoutTokenOrIdentities_RefusesAdminCalls) {
  Start({});
  v1::ExplainResponse explained;
  v1::ResetLimitResponse reset;
  v1::ListRulesResponse rules;
  v1::ReloadRulesResponse reloaded;
  for (const grpc::Status& status :
       {Call(&v1::Admin::Stub::Explain, ForUser<v1::ExplainRequest>(), explained),
        Call(&v1::Admin::Stub::ResetLimit, ForUser<v1::ResetLimitRequest>(), reset),
        Call(&v1::Admin::Stub::ListRules, {}, rules),
        Call(&v1::Admin::Stub::ReloadRules, {}, reloaded)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("admin.listen"));
    EXPECT_THAT(status.error_message(), HasSubstr("admin.token_file"));
  }
  EXPECT_EQ(Check().decision(), v1::DECISION_ALLOWED);
}

TEST_F(AdminServiceTest, PublicPortWithAToken_AdmitsOnlyTheToken) {
  static const Secret sesame("sesame");
  Start({.token = &sesame});
  v1::ListRulesResponse rules;
  const auto code_with = [&](const std::vector<std::string>& authorizations) {
    return Call(&v1::Admin::Stub::ListRules, {}, rules, authorizations).error_code();
  };
  EXPECT_EQ(code_with({"Bearer sesame"}), grpc::StatusCode::OK);
  EXPECT_EQ(code_with({}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_with({"Bearer wrong"}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code_with({"Bearer sesame", "Bearer wrong"}), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AdminServiceTest, WorkerIsStopped_ListRulesIsUnavailable) {
  Start();
  worker_.Stop();
  v1::ListRulesResponse rules;
  const auto status = Call(&v1::Admin::Stub::ListRules, {}, rules);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("try again"));
}

TEST_F(AdminServiceTest, CallerGivesUpWhileTheRulesAreRead_ServerKeepsServing) {
  Start();
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    v1::ReloadRulesResponse response;
    EXPECT_EQ(admin_->ReloadRules(&context, {}, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  rules_.go_on.Notify();
  v1::ListRulesResponse rules;
  EXPECT_TRUE(Call(&v1::Admin::Stub::ListRules, {}, rules).ok());
  EXPECT_EQ(rules.rules_size(), 2);
}

TEST_F(AdminServiceTest, ListReloadResetAndWrongTokens_AreLogged) {
  const Secret sesame("sesame");
  WrongTokens wrong(metrics_);
  rules_.go_on.Notify();
  Start({.token = &sesame, .wrong_tokens = &wrong});
  v1::ListRulesResponse listed;
  const v1::ListRulesRequest list;
  EXPECT_FALSE(Call(&v1::Admin::Stub::ListRules, list, listed, {"Bearer wrong"}).ok());
  EXPECT_FALSE(Call(&v1::Admin::Stub::ListRules, list, listed, {"Bearer wrong"}).ok());
  EXPECT_EQ(log_.CountLines("lists the rules"), 0);
  EXPECT_EQ(log_.CountLines("has sent a wrong admin token"), 1) << "once a second";
  EXPECT_TRUE(Call(&v1::Admin::Stub::ListRules, list, listed, {"Bearer sesame"}).ok());
  v1::ReloadRulesResponse reloaded;
  EXPECT_TRUE(Call(&v1::Admin::Stub::ReloadRules, {}, reloaded, {"Bearer sesame"}).ok());
  v1::ResetLimitResponse reset;
  EXPECT_TRUE(
      Call(&v1::Admin::Stub::ResetLimit, ForUser<v1::ResetLimitRequest>(), reset, {"Bearer sesame"})
          .ok());
  for (const char* what :
       {"lists the rules", "reads the rules again", "resets counters of domain \"shop\""}) {
    ASSERT_EQ(log_.CountLines(what), 1) << log_.text();
    EXPECT_EQ(log_.Lines(what)[0].find("info admin: the admin token (unix)"), 0u) << log_.text();
  }
  EXPECT_EQ(log_.text().find("sesame"), std::string::npos);
  EXPECT_NE(metrics_.Render().find("sluice_admin_refused_total{reason=\"wrong_token\"} 2"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
