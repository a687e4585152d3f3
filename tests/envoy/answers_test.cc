// The content of answers of Envoy's service besides the decision, on every store: headers, errors,
// metadata, metrics; and reloads. decisions_test.cc names the stores.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/envoy/rls_fixture.h"
#include "tests/limiter/fixture.h"

namespace sluice::envoy {
namespace {

TEST_P(RlsTest, Headers_Table) {
  Serve(R"(
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: h, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
)",
        {.response_headers = true, .reset_header = "X-Reset"});
  ExpectAnswers({
      {"d; none; free", "OK; OK; OK inf"},
      {"d; k=1", "OK; OK 1/2 minute 20s; RateLimit-Limit: 2; RateLimit-Remaining: 1; X-Reset: 20"},
      // The one with the least remaining, the first of equal ones.
      {"d; h=1; k=1",
       "OK; OK 1/2 hour 800s; OK 0/2 minute 20s; RateLimit-Limit: 2; "
       "RateLimit-Remaining: 0; X-Reset: 20"},
      {"d; h=2; k=2",
       "OK; OK 1/2 hour 800s; OK 1/2 minute 20s; RateLimit-Limit: 2; "
       "RateLimit-Remaining: 1; X-Reset: 800"},
      // The last one that is over.
      {"d; k=1; h=3 *3; free",
       "OVER; OVER 0/2 minute 20s; OVER 0/2 hour 800s; OK inf; "
       "RateLimit-Limit: 2; RateLimit-Remaining: 0; X-Reset: 800"},
      {"d; k=1; q=1 *2",
       "OVER; OVER 0/2 minute 20s; OVER 0/1 day 36800s; RateLimit-Limit: 2; "
       "RateLimit-Remaining: 0; X-Reset: 20"},
  });
}

TEST_P(RlsTest, Errors_Table) {
  Serve(kHitRules);
  pb::RateLimitRequest request;
  EXPECT_EQ(AskBytes(request), "2 rate limit domain must not be empty");
  request.set_domain("d");
  EXPECT_EQ(AskBytes(request), "2 rate limit descriptor list must not be empty");
  request.set_domain("");
  request.add_descriptors();
  EXPECT_EQ(AskBytes(request), "2 rate limit domain must not be empty");
  EXPECT_EQ(AskRaw("\x0a\x7f"), "3 the request is not a valid protobuf message");
  EXPECT_EQ(AskRaw("\x0a\x02\xC3\x28\x12\x00"), "3 domain: not valid UTF-8");
  request = RequestOf("d; k=v");
  std::string bytes = request.SerializeAsString();
  bytes.replace(bytes.find("\x01v"), 2, "\x01\xFF");
  EXPECT_EQ(AskRaw(bytes), "3 descriptors.entries.value: not valid UTF-8");
}

TEST_P(RlsTest, LargeRequests_AreAnswered) {
  Serve(kHitRules);
  pb::RateLimitRequest request = RequestOf("d; k");
  request.mutable_descriptors(0)->mutable_entries(0)->set_value(std::string(1 << 20, 'x'));
  EXPECT_EQ(AskBytes(request), "OK; OK 9/10 minute 20s");
  EXPECT_EQ(AskBytes(request), "OK; OK 8/10 minute 20s");
  request.mutable_descriptors(0)->mutable_entries(0)->mutable_value()->back() = 'y';
  EXPECT_EQ(AskBytes(request), "OK; OK 9/10 minute 20s");
  request.set_domain(std::string(1000, 'd'));
  EXPECT_EQ(AskBytes(request), "OK; OK");

  request = RequestOf("d; k=many");
  for (int i = 1; i < 10'000; ++i) *request.add_descriptors() = request.descriptors(0);
  const std::string answer = AskBytes(request);
  EXPECT_EQ(last_.statuses_size(), 10'000);
  EXPECT_EQ(answer.substr(0, 6), "OVER; ");
  int admitted = 0;
  for (const auto& status : last_.statuses()) {
    admitted += status.code() == pb::RateLimitResponse::OK;
  }
  EXPECT_EQ(admitted, 10);
  EXPECT_EQ(last_.statuses(9).code(), pb::RateLimitResponse::OK);
}

TEST_P(RlsTest, Metadata_OfTheRulesOnTheWay_IsInTheAnswer) {
  Serve(R"(
domain: d
descriptors:
  - key: a
    metadata: {team: one, nested: {list: [1, yes, "2", ~, true, Nan, infinity]}}
    descriptors:
      - {key: b, metadata: {team: two}, rate_limit: {unit: minute, requests_per_unit: 5}}
)",
        {.dynamic_metadata = true});
  EXPECT_EQ(Ask("d h2; a=1,b=2 *3; c !4/hour"), "OK; OK 2/5 minute 20s; OK 2/4 hour 800s");
  const std::string text = last_.dynamic_metadata().ShortDebugString();
  const auto& fields = last_.dynamic_metadata().fields();
  EXPECT_EQ(fields.at("domain").string_value(), "d") << text;
  EXPECT_EQ(fields.at("team").string_value(), "two");
  EXPECT_EQ(fields.at("hitsAddend").number_value(), 2);
  const auto& list = fields.at("nested").struct_value().fields().at("list").list_value();
  ASSERT_EQ(list.values_size(), 7) << text;
  EXPECT_EQ(list.values(0).number_value(), 1);
  EXPECT_EQ(list.values(1).string_value(), "yes");
  EXPECT_EQ(list.values(2).string_value(), "2");
  EXPECT_EQ(list.values(3).kind_case(), google::protobuf::Value::kNullValue);
  EXPECT_TRUE(list.values(4).bool_value());
  EXPECT_EQ(list.values(5).string_value(), "Nan") << text;
  EXPECT_EQ(list.values(6).string_value(), "infinity");
  const auto& asked = fields.at("descriptors").list_value();
  ASSERT_EQ(asked.values_size(), 2);
  const auto& first = asked.values(0).struct_value().fields();
  EXPECT_EQ(first.at("entries").list_value().values(1).string_value(), "b=2");
  EXPECT_EQ(first.at("hitsAddend").number_value(), 3);
  const auto& second = asked.values(1).struct_value().fields();
  EXPECT_EQ(second.at("limit").struct_value().fields().at("unit").string_value(), "hour");
}

TEST_P(RlsTest, LongDescriptorWithALimitOfItsOwn_IsAnswered) {
  Serve(kHitRules);
  pb::RateLimitRequest request = RequestOf("d; k !6/minute");
  request.mutable_descriptors(0)->mutable_entries(0)->set_value(std::string(10'000, 'x'));
  EXPECT_EQ(AskBytes(request), "OK; OK 5/6 minute 20s");
  EXPECT_EQ(AskBytes(request), "OK; OK 4/6 minute 20s");
}

TEST_P(RlsTest, CallersTimeIsOver_NothingIsDecided) {
  Serve(kHitRules);
  BlockingCall call;
  call.until = SteadyNow();
  const std::string request = RequestOf("d; k").SerializeAsString();
  call.Run(*handler_, request);
  EXPECT_EQ(call.status.code, rpc::StatusCode::kDeadlineExceeded);
  ExpectAnswers({{"d; k", "OK; OK 9/10 minute 20s"}});
}

// A handler serves one call after the other. Without its checks, a call would be allowed.
TEST_P(RlsTest, CallAfterOneThatWasCancelled_IsDecided) {
  Serve(kHitRules);
  pb::RateLimitRequest request = RequestOf("d; k=many");
  for (int i = 1; i < 1'000; ++i) *request.add_descriptors() = request.descriptors(0);
  BlockingCall call;
  call.cancels = true;
  const std::string bytes = request.SerializeAsString();
  call.Run(*handler_, bytes);
  ExpectAnswers({{"d; zero", "OVER; OVER 0/0 minute 20s"}, {"d; k", "OK; OK 9/10 minute 20s"}});
}

TEST_P(RlsTest, StoreFails_PoliciesOfTheRulesDecide) {
  test::FragileStore store(clock_);
  store.failing = StoreFailure::kUnreachable;
  ServeFrom(store, R"(
domain: d
descriptors:
  - {key: allow, rate_limit: {unit: minute, requests_per_unit: 9, on_store_failure: allow}}
  - {key: deny, rate_limit: {unit: minute, requests_per_unit: 9, on_store_failure: deny}}
  - {key: error, rate_limit: {unit: minute, requests_per_unit: 9, on_store_failure: error}}
  - {key: local, rate_limit: {unit: minute, requests_per_unit: 9}}
)");
  ExpectAnswers({
      {"d; allow", "OK; OK 9/9 minute"},
      {"d; deny", "OVER; OVER 0/9 minute"},
      {"d; error", "14 the store does not answer, and the rule says on_store_failure: error"},
      {"d; local", "OK; OK 8/9 minute 20s"},
      {"d; allow; error; local",
       "14 the store does not answer, and the rule says on_store_failure: error"},
      {"d; allow; deny", "OVER; OK 9/9 minute; OVER 0/9 minute"},
  });
}

TEST_P(RlsTest, Reload_CountersGoOn) {
  const auto limit = [](int requests) {
    return fmt::format(
        "domain: d\ndescriptors: [{{key: k, rate_limit: {{unit: minute, requests_per_unit: {}}}}}]",
        requests);
  };
  Serve(limit(5));
  ExpectAnswers({{"d; k *4", "OK; OK 1/5 minute 20s"}});
  limiter_->SetRules(IndexOf(limit(9)));
  ExpectAnswers({{"d; k", "OK; OK 4/9 minute 20s"}});
  limiter_->SetRules(IndexOf(limit(2)));
  ExpectAnswers({{"d; k", "OVER; OVER 0/2 minute 20s"}});
  limiter_->SetRules(IndexOf("domain: e"));
  ExpectAnswers({{"d; k", "OK; OK"}, {"e; k", "OK; OK"}});
}

std::string ValueOf(const MetricsRegistry& metrics, const std::string& series) {
  const std::string page = metrics.Render();
  const auto at = page.find("\n" + series + " ");
  if (at == std::string::npos) return "none";
  const auto begin = at + series.size() + 2;
  return page.substr(begin, page.find('\n', begin) - begin);
}

TEST_P(RlsTest, KnownToBeOver_IsDeniedWithoutCounting) {
  Serve(kHitRules, {}, true);
  const std::string labels = "{domain=\"d\",rule=\"k\"}";
  ExpectAnswers({
      {"d; k *11", "OVER; OVER 0/10 minute 20s"},
      {"d; k *100", "OVER; OVER 0/10 minute 20s"},
      {"d; k -2; k", "OK; OK 1/10 minute 20s; OK 0/10 minute 20s"},
  });
  EXPECT_EQ(ValueOf(metrics_, "sluice_envoy_over_limit_cached_hits_total" + labels), "100");
}

TEST_P(RlsTest, Metrics_HaveThePeersMeaning) {
  Serve(R"(
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: seven, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: p, value: a*, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: v
    value_to_metric: true
    descriptors: [{key: w, rate_limit: {unit: minute, requests_per_unit: 1}}]
)");
  Ask("d; k *7");
  Ask("d; k *3");
  Ask("d; k *2");
  Ask("d; k *0");
  Ask("d; k -1");
  Ask("d; seven *6");
  Ask("d; s *5");
  Ask("d; p=ab");
  Ask("d; v=1,w=2");
  Ask("d; k !5/day *2");
  const auto value = [&](const std::string& name, const std::string& rule) {
    return ValueOf(metrics_,
                   fmt::format("sluice_envoy_{}_total{{domain=\"d\",rule=\"{}\"}}", name, rule));
  };
  EXPECT_EQ(value("hits", "k"), "12");
  EXPECT_EQ(value("within_limit_hits", "k"), "10");
  EXPECT_EQ(value("near_limit_hits", "k"), "2");      // beyond 8
  EXPECT_EQ(value("near_limit_hits", "seven"), "1");  // 80 % of 7, rounded down, is 5
  EXPECT_EQ(value("over_limit_hits", "k"), "2");
  EXPECT_EQ(value("shadow_mode_hits", "k"), "0");
  EXPECT_EQ(value("shadow_mode_hits", "s"), "5");
  EXPECT_EQ(value("over_limit_hits", "s"), "5");
  EXPECT_EQ(value("hits", "p=ab"), "1");
  EXPECT_EQ(value("hits", "v=1,w"), "1");
  EXPECT_EQ(value("hits", "(override)"), "2");
}

}  // namespace
}  // namespace sluice::envoy
