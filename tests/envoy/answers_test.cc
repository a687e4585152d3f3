// The answers of Envoy's service, with every store: headers, errors, metadata and quotas. Also
// metrics and reloads. decisions_test.cc tests the decisions and names the stores.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/envoy/rls_fixture.h"
#include "tests/limiter/fixture.h"

namespace sluice::envoy {
namespace {

TEST_P(RlsTest, Headers_ShowOneLimitOfTheRequest) {
  Serve(R"(
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: h, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
)",
        {.limit_header = "RateLimit-Limit",
         .remaining_header = "RateLimit-Remaining",
         .reset_header = "X-Reset"});
  ExpectAnswers({
      {"d; none; free", "OK; OK; OK inf"},
      {"d; k=1", "OK; OK 1/2 minute 20s; RateLimit-Limit: 2; RateLimit-Remaining: 1; X-Reset: 20"},
      // If no limit is over, the headers show the first limit with the least remaining.
      {"d; h=1; k=1",
       "OK; OK 1/2 hour 800s; OK 0/2 minute 20s; RateLimit-Limit: 2; "
       "RateLimit-Remaining: 0; X-Reset: 20"},
      {"d; h=2; k=2",
       "OK; OK 1/2 hour 800s; OK 1/2 minute 20s; RateLimit-Limit: 2; "
       "RateLimit-Remaining: 1; X-Reset: 800"},
      // The headers show the last limit that is over and not in quota mode.
      {"d; k=1; h=3 *3; free",
       "OVER; OVER 0/2 minute 20s; OVER 0/2 hour 800s; OK inf; "
       "RateLimit-Limit: 2; RateLimit-Remaining: 0; X-Reset: 800"},
      {"d; k=1; q=1 *2",
       "OVER; OVER 0/2 minute 20s; OVER 0/1 day 36800s; RateLimit-Limit: 2; "
       "RateLimit-Remaining: 0; X-Reset: 20"},
  });
}

TEST_P(RlsTest, InvalidRequests_AreRefused) {
  Serve(kHitRules);
  pb::RateLimitRequest request;
  EXPECT_EQ(AskBytes(request), "2 rate limit domain must not be empty");
  request.set_domain("d");
  EXPECT_EQ(AskBytes(request), "2 rate limit descriptor list must not be empty");
  request.set_domain("");
  request.add_descriptors();
  EXPECT_EQ(AskBytes(request), "2 rate limit domain must not be empty");
  EXPECT_EQ(AskRaw("\x0a\x7f"),
            "3 the request is not a valid protobuf message of at most 4096 fields");
  EXPECT_EQ(AskRaw("\x0a\x02\xC3\x28\x12"), "3 domain: not valid UTF-8");
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
  for (int i = 1; i < 100; ++i) *request.add_descriptors() = request.descriptors(0);
  const std::string answer = AskBytes(request);
  EXPECT_EQ(last_.statuses_size(), 100);
  EXPECT_EQ(answer.substr(0, 6), "OVER; ");
  int admitted = 0;
  for (const auto& status : last_.statuses()) {
    admitted += status.code() == pb::RateLimitResponse::OK;
  }
  EXPECT_EQ(admitted, 10);
  EXPECT_EQ(last_.statuses(9).code(), pb::RateLimitResponse::OK);
}

TEST_P(RlsTest, TooManyDescriptors_AreRefused) {
  Serve(kHitRules);
  pb::RateLimitRequest request = RequestOf("d; k=many");
  while (request.descriptors_size() < 101) *request.add_descriptors() = request.descriptors(0);
  EXPECT_EQ(AskBytes(request), "3 descriptors: 101 are too many; at most 100 are allowed");
  while (request.descriptors_size() < 10'000) *request.add_descriptors() = request.descriptors(0);
  EXPECT_EQ(AskBytes(request),
            "3 the request is not a valid protobuf message of at most 4096 fields");
}

TEST_P(RlsTest, Metadata_OfRulesAndDescriptors_IsInTheAnswer) {
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

TEST_P(RlsTest, CallersDeadlineHasPassed_NothingIsCounted) {
  Serve(kHitRules);
  BlockingCall call;
  call.until = SteadyNow();
  const std::string request = RequestOf("d; k").SerializeAsString();
  call.Run(*handler_, request);
  EXPECT_EQ(call.status.code, rpc::StatusCode::kDeadlineExceeded);
  ExpectAnswers({{"d; k", "OK; OK 9/10 minute 20s"}});
}

// A handler serves one call after another. If a canceled call left `canceled_` set, the handler
// would start no checks for the next call, and would allow it.
TEST_P(RlsTest, CallAfterACanceledCall_IsDecided) {
  Serve(kHitRules);
  pb::RateLimitRequest request = RequestOf("d; k=many");
  for (int i = 1; i < 100; ++i) *request.add_descriptors() = request.descriptors(0);
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

TEST_P(RlsTest, Reload_CountersContinue) {
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

// A quota tells a caller to remember a denial until the window ends. An answer has a quota only if
// no hit can be admitted before the window ends.
TEST_P(RlsTest, Quota_TellsHowLongDenialsLast) {
  struct Case {
    std::string request;
    EnvoySettings settings;
    int seconds;  // how long the quota is valid; 0: no quota
  };
  const std::string rules = std::string(kHitRules) + R"(
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: own, rate_limit: {limits: [{algorithm: fixed_window, limit: 1, window: 1m}]}}
)";
  const EnvoySettings counts_granted{.count_denied = false};
  const std::vector<Case> cases = {
      {"d; k=a *10", {}, 0},
      {"d; k=a", {}, 20},
      {"d; k=a *0", {}, 20},  // 0 hits
      {"d; k=a -20", {}, 0},
      {"d; k=a", {}, 0},
      {"d; hour *2", {}, 800},
      {"d; zero", {}, 20},
      {"d; k=o !1/day *2", {}, 36'800},
      {"d; quota *2", {}, 0},
      {"d; shadow *2", {}, 0},
      {"d; own *2", {}, 0},
      {"d; k=b *11", counts_granted, 0},  // fewer hits could be granted
      {"d; k=b *10", counts_granted, 0},
      {"d; k=b", counts_granted, 20},
      {"d; k=c *11", {.shadow_mode = true}, 0},
      {"d; k=c", {.quota_mode = true}, 0},
  };
  for (const bool deny_cache : {false, true}) {
    if (deny_cache) clock_.Advance(std::chrono::days(365));
    for (const Case& it : cases) {
      Serve(rules, it.settings, deny_cache);
      Ask(it.request);
      const auto& status = last_.statuses(0);
      if (it.seconds == 0) {
        EXPECT_FALSE(status.has_quota()) << it.request;
        continue;
      }
      const auto now = std::chrono::floor<std::chrono::seconds>(clock_.Now().time_since_epoch());
      EXPECT_EQ(status.quota().requests(), 1U) << it.request;
      EXPECT_EQ(status.quota().valid_until().seconds(),
                now.count() + status.duration_until_reset().seconds())
          << it.request;
      EXPECT_TRUE(deny_cache || status.duration_until_reset().seconds() == it.seconds)
          << it.request;
    }
  }
}

TEST_P(RlsTest, DenyCache_LimitIsOver_HitsAreDeniedWithoutCounting) {
  Serve(kHitRules, {}, true);
  const std::string labels = "{domain=\"d\",rule=\"k\"}";
  ExpectAnswers({
      {"d; k *11", "OVER; OVER 0/10 minute 20s"},
      {"d; k *100", "OVER; OVER 0/10 minute 20s"},
      {"d; k -2; k", "OK; OK 1/10 minute 20s; OK 0/10 minute 20s"},
  });
  EXPECT_EQ(ValueOf(metrics_, "sluice_envoy_over_limit_cached_hits_total" + labels), "100");
}

TEST_P(RlsTest, Metrics_CountHitsByRule) {
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

TEST_P(RlsTest, MetricsUnderEnvoysNames_ExistOnlyIfTheSettingIsOn) {
  const std::string rules = R"(
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: 'a,b', value: 'x\"y', rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: one
    value: v
    descriptors:
      - key: two
        rate_limit: {unit: minute, requests_per_unit: 5}
        descriptors: [{key: three, value: w, rate_limit: {unit: minute, requests_per_unit: 5}}]
  - {key: one_v, descriptors: [{key: two, rate_limit: {unit: minute, requests_per_unit: 5}}]}
)";
  Serve(rules);
  Ask("d; k *9");
  EXPECT_EQ(metrics_.Render().find("ratelimit_service"), std::string::npos);
  Serve(rules, {.metric_names = true});
  Ask("d; k *2; nothing");
  Ask("d; one=v,two=2 *3");
  Ask("d; one_v=u,two=2");  // has the same labels as the descriptor above
  Ask("d; one=v,two=2,three=w");
  Ask("; k");
  pb::RateLimitRequest quoted;
  quoted.set_domain("d");
  auto& entry = *quoted.add_descriptors()->add_entries();
  entry.set_key("a,b");
  entry.set_value("x\\\"y");
  AskBytes(quoted);
  const auto value = [&](const std::string& name, const std::string& labels) {
    return ValueOf(metrics_, fmt::format("ratelimit_service_{}{{{}}}", name, labels));
  };
  const std::string k = R"(domain="d",key1="k")";
  EXPECT_EQ(value("rate_limit_total_hits", k), "2");
  EXPECT_EQ(value("rate_limit_over_limit", k), "2");
  EXPECT_EQ(value("rate_limit_within_limit", k), "0");
  EXPECT_EQ(value("rate_limit_near_limit", k), "0");
  EXPECT_EQ(value("rate_limit_shadow_mode", k), "0");
  EXPECT_EQ(value("rate_limit_total_hits", R"(domain="d",key1="one_v",key2="two")"), "4");
  EXPECT_EQ(value("rate_limit_total_hits", R"(domain="d",key1="one_v",key2="two.three_w")"), "1");
  EXPECT_EQ(value("rate_limit_total_hits", R"(domain="d",key1="a,b_x\\\"y")"), "1");
  EXPECT_EQ(value("total_requests", R"(grpc_method="ShouldRateLimit")"), "6");
  EXPECT_EQ(value("response_time_seconds_count", R"(grpc_method="ShouldRateLimit")"), "5");
  EXPECT_EQ(value("should_rate_limit_error", R"(err_type="service_error")"), "1");
  EXPECT_EQ(value("should_rate_limit_error", R"(err_type="redis_error")"), "0");
}

}  // namespace
}  // namespace sluice::envoy
