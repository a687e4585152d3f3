#include "tools/answer_text.h"
#include "tools/explain_text.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

namespace sluice::tools {
namespace {

TEST(AnswerText, Answer_ShowsDecisionReasonAndLimits) {
  const struct {
    const char* response;
    const char* text;
  } kRows[] = {
      {R"({"decision": "DECISION_DENIED", "source": "SOURCE_STORE", "retryAfter": "0.085s",
           "limits": [
             {"rule": "pay-per-user", "index": 0, "algorithm": "ALGORITHM_TOKEN_BUCKET",
              "limit": 20, "remaining": 0, "retryAfter": "0.085s", "resetAfter": "1.985s"},
             {"rule": "pay-per-user", "index": 1, "algorithm": "ALGORITHM_FIXED_WINDOW",
              "limit": 1000, "remaining": 979, "resetAfter": "18720s", "admitted": true}]})",
       "DENIED  by pay-per-user (token_bucket 0 of 20 left)  retry in 85 ms\n"
       "  pay-per-user[0]  token_bucket      0 of 20 left  resets in 1.99 s, denies for 85 ms\n"
       "  pay-per-user[1]  fixed_window  979 of 1000 left  resets in 5 h 12 min\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_STORE", "limits": [
             {"rule": "site", "algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 10, "remaining": 1,
              "resetAfter": "1s", "admitted": true},
             {"rule": "user", "algorithm": "ALGORITHM_TOKEN_BUCKET", "limit": 1000,
              "remaining": 5, "resetAfter": "1s", "admitted": true},
             {"rule": "new", "algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 1, "remaining": 0,
              "resetAfter": "1s", "retryAfter": "1s", "shadow": true}]})",
       "ALLOWED  by user (token_bucket 5 of 1000 left)\n"
       "  site[0]  fixed_window    1 of 10 left  resets in 1 s\n"
       "  user[0]  token_bucket  5 of 1000 left  resets in 1 s\n"
       "  new[0]   fixed_window     0 of 1 left  resets in 1 s, denies for 1 s (shadow)\n"},
      {R"({"decision": "DECISION_DENIED", "source": "SOURCE_STORE", "limits": [
             {"rule": "site", "algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 10, "remaining": 10,
              "resetAfter": "0s"}]})",
       "DENIED  by site (fixed_window 10 of 10 left)  a retry cannot help\n"
       "  site[0]  fixed_window  10 of 10 left  never admits this cost\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_NO_RULE"})",
       "ALLOWED  no rule of domain shop matches\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_NO_RULE", "limits": [
             {"rule": "new", "algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 1, "remaining": 0,
              "resetAfter": "1s", "admitted": true, "shadow": true}]})",
       "ALLOWED  only shadow rules count this request\n"
       "  new[0]  fixed_window  0 of 1 left  resets in 1 s (shadow)\n"},
      {R"({"decision": "DECISION_DENIED", "source": "SOURCE_RULE"})",
       "DENIED  by a rule without counters (sluice explain names it)  a retry cannot help\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_FALLBACK", "limits": [
             {"rule": "site", "algorithm": "ALGORITHM_FIXED_WINDOW", "admitted": true}]})",
       "ALLOWED  by site (fixed_window state unknown)"
       "  [the store failed; on_store_failure decided]\n"
       "  site[0]  fixed_window  state unknown\n"},
      {R"({"decision": "DECISION_ALLOWED", "wait": "0.000000001s", "source": "SOURCE_NO_RULE"})",
       "ALLOWED  no rule of domain shop matches  start in 1 us\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_STORE", "limits": [
             {"rule": "tokens", "algorithm": "ALGORITHM_TOKEN_BUCKET", "limit": 10, "remaining": 0,
              "resetAfter": "110s", "admitted": true, "droppedCost": 25}]})",
       "ALLOWED  by tokens (token_bucket 0 of 10 left)\n"
       "  tokens[0]  token_bucket  0 of 10 left  resets in 1 min 50 s, 25 not charged: maximum "
       "debt reached\n"},
      {R"({"decision": "DECISION_DENIED", "source": "SOURCE_RULE", "limits": [
             {"rule": "block-list", "source": "SOURCE_RULE"}]})",
       "DENIED  by block-list (blocked)  a retry cannot help\n"},
      {R"({"decision": "DECISION_DENIED", "source": "SOURCE_RULE",
           "limits": [{"rule": "login", "source": "SOURCE_RULE"}],
           "missingAttributes": [{"rule": "pay-per-user", "attribute": "user"},
                                 {"rule": "login", "attribute": "account"},
                                 {"rule": "login", "attribute": "client_ip"}]})",
       "DENIED  by login (no attribute account, attribute client_ip is not an IP address)  a retry "
       "cannot help\n"
       "  pay-per-user was skipped: no attribute user\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_NO_RULE", "missingAttributes": [
             {"rule": "pay", "attribute": "org"}, {"rule": "pay", "attribute": "user"}]})",
       "ALLOWED  no rule of domain shop counts this request\n"
       "  pay was skipped: no attribute org, no attribute user\n"},
      {R"({"decision": "DECISION_ALLOWED", "source": "SOURCE_NO_RULE", "unknownDomain": true})",
       "ALLOWED  no rules for domain shop (did you mean \"shops\"?)\n"},
  };
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  (*request.mutable_attributes())["client_ip"] = "localhost";
  for (const auto& row : kRows) {
    v1::CheckLimitResponse response;
    const auto parsed = google::protobuf::util::JsonStringToMessage(row.response, &response);
    ASSERT_TRUE(parsed.ok()) << parsed.ToString();
    for (v1::LimitStatus& limit : *response.mutable_limits()) limit.set_units(1);
    EXPECT_EQ(AnswerText(request, response, {.domain_hint = " (did you mean \"shops\"?)"}),
              row.text);
  }
}

TEST(AnswerText, LimitsThatCountAmounts_ShowTheUnits) {
  const char* const kText = R"({"decision": "DECISION_DENIED", "source": "SOURCE_STORE",
    "retryAfter": "2s", "uncountedAmounts": ["tokns", "bytes"], "limits": [
      {"rule": "model", "index": 0, "algorithm": "ALGORITHM_TOKEN_BUCKET", "limit": 60,
       "remaining": 59, "resetAfter": "1s", "admitted": true, "units": 1},
      {"rule": "model", "index": 1, "algorithm": "ALGORITHM_TOKEN_BUCKET", "limit": 200000,
       "remaining": 0, "resetAfter": "2s", "retryAfter": "2s", "units": 4500},
      {"rule": "model", "index": 2, "algorithm": "ALGORITHM_FIXED_WINDOW", "limit": 9,
       "remaining": 9, "admitted": true}]})";
  v1::CheckLimitRequest request;
  request.set_domain("llm");
  v1::CheckLimitResponse response;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(kText, &response).ok());
  EXPECT_EQ(
      AnswerText(request, response),
      "DENIED  by model (token_bucket 0 of 200000 left)  retry in 2 s\n"
      "  model[0]  token_bucket     59 of 60 left     units 1  resets in 1 s\n"
      "  model[1]  token_bucket  0 of 200000 left  units 4500  resets in 2 s, denies for 2 s\n"
      "  model[2]  fixed_window       9 of 9 left     units 0\n"
      "  amount tokns was ignored: no rule of domain llm counts it\n"
      "  amount bytes was ignored: no rule of domain llm counts it\n");
}

TEST(CountsText, NamesAndWeights_AreShown) {
  EXPECT_EQ(CountsText({{"requests", 1}}), "requests");
  EXPECT_EQ(CountsText({{"in", 1}, {"out", 1}}), "in + out");
  EXPECT_EQ(CountsText({{"in", 3}, {"out", 15}}), "3 in + 15 out");
}

TEST(AnswerText, WaitIsOver_SaysWaited) {
  v1::CheckLimitResponse response;
  response.set_decision(v1::DECISION_ALLOWED);
  response.set_source(v1::SOURCE_NO_RULE);
  response.mutable_wait()->set_seconds(2);
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  EXPECT_EQ(AnswerText(request, response, {.waited = true}),
            "ALLOWED  no rule of domain shop matches  waited 2 s\n");
}

TEST(AnswerText, Charge_WithinOrOverTheLimit_SaysCharged) {
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  request.set_mode(v1::MODE_CHARGE);
  v1::CheckLimitResponse response;
  response.set_decision(v1::DECISION_DENIED);
  response.set_source(v1::SOURCE_STORE);
  v1::LimitStatus& limit = *response.add_limits();
  limit.set_rule("tokens");
  limit.set_algorithm(v1::ALGORITHM_TOKEN_BUCKET);
  limit.set_limit(10);
  limit.mutable_retry_after()->set_seconds(2);
  limit.set_units(1);
  EXPECT_EQ(DecisionText(request, response),
            "CHARGED over the limit  by tokens (token_bucket 0 of 10 left)\n");
  response.set_decision(v1::DECISION_ALLOWED);
  EXPECT_EQ(DecisionText(request, response), "CHARGED  by tokens (token_bucket 0 of 10 left)\n");
  EXPECT_TRUE(WasCharged(request, response));

  limit.set_units(0);
  EXPECT_FALSE(WasCharged(request, response)) << "the limit counts nothing of the request";
  limit.set_units(1);
  limit.clear_algorithm();
  EXPECT_FALSE(WasCharged(request, response)) << "the rule has no counters";
  limit.set_algorithm(v1::ALGORITHM_TOKEN_BUCKET);
  request.set_mode(v1::MODE_CONSUME);
  EXPECT_FALSE(WasCharged(request, response));
}

}  // namespace
}  // namespace sluice::tools
