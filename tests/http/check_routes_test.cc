// RPC methods over HTTP: JSON, and checks by proxies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/notification.h"
#include "http/auth_handler.h"
#include "http/json_handler.h"
#include "http/unary_calls.h"
#include "tests/http/http_fixture.h"
#include "tests/support/manual_loop.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A CheckLimit whose outcome depends on the attribute "say".
class FakeCheckLimit final : public rpc::UnaryHandler {
 public:
  struct Seen {
    std::atomic<int> served = 0;
    std::atomic<int> canceled = 0;
    std::atomic<int> lost = 0;
    std::function<void()> before_answer = [] {};
  };

  explicit FakeCheckLimit(Seen& seen) : seen_(seen) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override {
    v1::CheckLimitRequest request;
    ASSERT_TRUE(request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    const std::string say =
        request.attributes().contains("say") ? request.attributes().at("say") : "";
    ++seen_.served;
    if (say == "nothing") return;
    if (say == "unavailable") {
      return Finish(rpc::Status{.code = rpc::StatusCode::kUnavailable, .message = "no \"store\""});
    }
    v1::CheckLimitResponse response;
    response.set_decision(say == "no" ? v1::DECISION_DENIED : v1::DECISION_ALLOWED);
    response.set_request_id(std::string(call.Metadata("authorization").value_or("")));
    if (say == "no") response.mutable_retry_after()->set_nanos(1);
    if (say == "later") response.mutable_wait()->set_nanos(50'000'000);
    auto& limit = *response.add_limits();
    limit.set_rule("pay \"x\"");
    limit.set_limit(10);
    limit.set_remaining(0);
    limit.mutable_reset_after()->set_seconds(6);
    limit.mutable_reset_after()->set_nanos(1);
    if (say == "huge") {
      limit.set_limit(std::int64_t{1} << 52);
      limit.set_remaining(std::int64_t{1} << 52);
      limit.mutable_reset_after()->set_seconds(1'000'000'000'000'000);
    }
    for (int i = 2; say == "many" && i < 100; ++i) {
      auto& another = *response.add_limits();
      another = limit;
      another.set_rule(std::string(100, 'n'));
      another.set_index(i);
    }
    auto& second = *response.add_limits();
    second = limit;
    second.set_index(1);
    auto& shadow = *response.add_limits();
    shadow = limit;
    shadow.set_shadow(true);
    seen_.before_answer();
    Finish(response.SerializeAsString(), [&seen = seen_] { ++seen.lost; });
  }

  // Called when the client or the server has gone. Ends the pending call.
  void OnCancel() override {
    ++seen_.canceled;
    Finish("");
  }

 private:
  Seen& seen_;
};

class CheckRoutesTest : public HttpServerTest {
 protected:
  CheckRoutesTest() { Start({AuthRoute("/v1/auth", calls_), JsonRoute("/v1/check", calls_)}); }

  ~CheckRoutesTest() override { server_.reset(); }

  std::string Post(const std::string& body, const std::string& headers = "") {
    return Ask("POST /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  std::string Auth(const std::string& query) {
    return Ask("GET /v1/auth?" + query + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  FakeCheckLimit::Seen seen_;
  UnaryCalls calls_{threads_,
                    {.path = "/sluice.v1.RateLimiter/CheckLimit", .unary = [this](net::Loop&) {
                       return std::make_unique<FakeCheckLimit>(seen_);
                     }}};
};

TEST_F(CheckRoutesTest, Json_HasTheFieldsOfTheApi) {
  const std::string answer =
      Post(R"({"domain":"d","attributes":{"say":"no"}})", "Authorization: Bearer x\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n")) << "a denial is no error";
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(answer, HasSubstr(R"("decision":"DECISION_DENIED","retryAfter":"0.000000001s")"));
  EXPECT_THAT(answer, HasSubstr(R"("remaining":"0")")) << "the field is present, although it is 0";
  EXPECT_THAT(answer, HasSubstr(R"("requestId":"Bearer x")")) << "handlers can read headers";
}

TEST_F(CheckRoutesTest, Json_LargeAnswer_ArrivesWhole) {
  const std::string id(2000, 'x');
  const std::string answer =
      Post(R"({"domain":"d","attributes":{"say":"no"}})", "Authorization: Bearer " + id + "\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr(R"("requestId":"Bearer )" + id + '"'));
}

TEST_F(CheckRoutesTest, Json_SeveralLargeAnswers_EachIterationWritesOne) {
  const HttpRoute route = JsonRoute("/v1/check", calls_);
  HttpRequest request;
  request.headers = {{"Authorization", "Bearer " + std::string(2000, 'x')}};
  request.body = R"({"domain":"d"})";
  test::ManualLoop loop;
  int answered = 0;
  for (int i = 0; i < 3; ++i) {
    route.handler(request, HttpResponder(std::make_shared<HttpExchange>(
                               loop, [&](const HttpResponse&) { ++answered; })));
  }
  for (int i = 0; i <= 3; ++i) {
    EXPECT_EQ(answered, i);
    loop.RunIteration();
  }
}

TEST_F(CheckRoutesTest, Json_InvalidRequest_ErrorSaysWhatIsWrong) {
  EXPECT_THAT(Post("{"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("{\"code\":3,\"message\":\"body: ")));
  EXPECT_THAT(Post(R"({"domian":"d"})"), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("domian")));
  EXPECT_EQ(seen_.served, 0);
  EXPECT_THAT(Post(R"({"attributes":{"say":"unavailable"}})"),
              AllOf(StartsWith("HTTP/1.1 503 "),
                    EndsWith("{\"code\":14,\"message\":\"no \\\"store\\\"\"}\n")));
  EXPECT_THAT(Ask("GET /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
}

// A page of another site, open in a browser that reaches this server, must not consume units.
TEST_F(CheckRoutesTest, PagesOfOtherSites_AreRefused) {
  struct Case {
    std::string headers;
    bool refused;
  };
  for (const Case& it :
       std::vector<Case>{{"", false},
                         {"Content-Type: application/x-www-form-urlencoded\r\n", false},
                         {"Content-Type: text/plain\r\n", false},
                         {"Origin: http://evil.test\r\nContent-Type: text/plain\r\n", true},
                         {"Origin: null\r\n", true},
                         {"Origin:\r\n", true},
                         {"Origin: http://x:8080\r\n", true},
                         {"Origin: http://x\r\n", false},
                         {"Origin: https://X\r\n", false},
                         {"Origin: http://x\r\nOrigin: http://evil.test\r\n", true},
                         {"Sec-Fetch-Site: cross-site\r\n", true},
                         {"Sec-Fetch-Site: cross-site\r\nOrigin: http://x\r\n", true},
                         {"Sec-Fetch-Site: same-origin\r\n", false},
                         {"Sec-Fetch-Site: none\r\n", false},
                         {"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", true}}) {
    const int served = seen_.served;
    EXPECT_THAT(Post("{}", it.headers), StartsWith(it.refused ? "HTTP/1.1 403 " : "HTTP/1.1 200 "))
        << it.headers;
    EXPECT_THAT(Ask("GET /v1/auth?domain=d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                    it.headers + "\r\n"),
                StartsWith(it.refused ? "HTTP/1.1 403 " : "HTTP/1.1 204 "))
        << it.headers;
    EXPECT_EQ(seen_.served, served + (it.refused ? 0 : 2));
  }
}

TEST_F(CheckRoutesTest, Auth_Allowed_Answers204WithTheLimits) {
  EXPECT_THAT(
      Auth("domain=d"),
      AllOf(StartsWith("HTTP/1.1 204 No Content\r\n"),
            HasSubstr("RateLimit-Policy: \"pay \\\"x\\\"\";q=10, \"pay \\\"x\\\"/1\";q=10\r\n"),
            HasSubstr("RateLimit: \"pay \\\"x\\\"\";r=0;t=7, \"pay \\\"x\\\"/1\";r=0;t=7\r\n"),
            Not(HasSubstr("Retry-After")), EndsWith("\r\n\r\n")));
}

TEST_F(CheckRoutesTest, Auth_NumbersOfMoreThan15Digits_AreBounded) {
  EXPECT_THAT(Auth("domain=d&say=huge"),
              AllOf(HasSubstr("\";q=999999999999999, "),
                    HasSubstr("\";r=999999999999999;t=999999999999999, ")));
}

// By default, nginx refuses answers with more than 4 KB of headers.
TEST_F(CheckRoutesTest, Auth_ManyLimits_HeadersListOnlyTheFirst) {
  const std::string answer = Auth("domain=d&say=many");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 204"), HasSubstr("nnn/2\";q=10"),
                            Not(HasSubstr("nnn/99\";q=10"))));
  EXPECT_LT(answer.size(), 4000U);
}

TEST_F(CheckRoutesTest, Auth_Denied_Answers429OrTheRequestedStatus) {
  EXPECT_THAT(Auth("domain=d&say=no"), AllOf(StartsWith("HTTP/1.1 429 Too Many Requests\r\n"),
                                             HasSubstr("Retry-After: 1\r\n")));
  EXPECT_THAT(Auth("domain=d&say=no&deny_status=403"),
              AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("Retry-After: 1\r\n")));
  EXPECT_THAT(Auth("domain=d&say=unavailable"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Auth("domain=d&domain="), StartsWith("HTTP/1.1 400 "));
}

TEST_F(CheckRoutesTest, Auth_MustWait_IsAnsweredAfterTheWait) {
  const SteadyTime began = SteadyNow();
  EXPECT_THAT(Auth("domain=d&say=later"), StartsWith("HTTP/1.1 204 "));
  EXPECT_GE(SteadyNow() - began, 50ms);
}

TEST_F(CheckRoutesTest, ClientGone_HandlerIsNotified) {
  {
    HttpClient client(address_);
    client.Send("GET /v1/auth?domain=d&say=nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return seen_.served == 1; }));
  }
  EXPECT_TRUE(Eventually([&] { return seen_.canceled == 1; }));
}

TEST_F(CheckRoutesTest, ClientGoneBeforeTheAnswerIsSent_AnswerIsLost) {
  const auto post = [](const std::string& more) {
    return "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + more + "\r\n{}";
  };
  const std::string requests[] = {
      post(""), post("Connection: close\r\n"),
      post("Authorization: Bearer " + std::string(2000, 'x') + "\r\n"),  // a large answer
      "GET /v1/auth?domain=d&say=later HTTP/1.1\r\nHost: x\r\n\r\n"};
  int lost = 0;
  for (const std::string& request : requests) {
    auto client = std::make_unique<HttpClient>(address_);
    Notification sent;
    seen_.before_answer = [&] {
      sent.Wait();
      client.reset();
    };
    client->Send(request);
    sent.Notify();
    ++lost;
    ASSERT_TRUE(Eventually([&] { return seen_.lost == lost; })) << request;
  }
  EXPECT_EQ(seen_.canceled, 0);
}

TEST_F(CheckRoutesTest, ClientGoneAfterTheAnswer_AnswerIsNotLost) {
  {
    HttpClient client(address_);
    client.Send("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    EXPECT_THAT(client.ReadUntil("}\n"), StartsWith("HTTP/1.1 200 "));
  }
  ASSERT_TRUE(Eventually([&] { return server_->connections() == 0; }));
  EXPECT_EQ(seen_.lost, 0);
}

TEST_F(CheckRoutesTest, ServerGone_OpenCallsAreCanceled) {
  HttpClient client(address_);
  client.Send("GET /v1/auth?domain=d&say=nothing HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return seen_.served == 1; }));
  server_.reset();
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_EQ(seen_.canceled, 1);
}

}  // namespace
}  // namespace sluice
