// Compares written answers with the bytes of protobuf's generated messages.
#include "api/answer_writer.h"

#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <string>

#include "tests/support/random.h"

namespace sluice {
namespace {

using test::Below;
using test::Random;

// A random duration: zero, or less than 1 ms, less than 1 s, or less than 10^13 us.
Duration AnyDuration(Random& random) {
  constexpr std::uint64_t kBounds[] = {1, 1'000, 1'000'000, 10'000'000'000'000};
  return Duration(static_cast<std::int64_t>(Below(random, kBounds[Below(random, 4)])));
}

std::int64_t AnyNumber(Random& random) {
  return static_cast<std::int64_t>(random() >> (1 + Below(random, 63)));
}

std::string AnyText(Random& random) {
  constexpr std::size_t kSizes[] = {0, 3, 100, 300, 20'000};
  return std::string(kSizes[Below(random, 5)], 'x');
}

IndexedRule AnyRule(Random& random) {
  Rule rule{.name = AnyText(random)};
  rule.shadow = Below(random, 2) == 0;
  return {.rule = std::move(rule), .domain = "shop"};
}

LimitAnswer AnyLimit(Random& random, const IndexedRule& rule) {
  LimitAnswer limit{.rule = &rule,
                    .index = static_cast<std::uint32_t>(Below(random, 3)),
                    .source = static_cast<Source>(1 + Below(random, 5)),
                    .state_known = Below(random, 4) > 0};
  if (Below(random, 8) > 0) limit.algorithm = static_cast<Algorithm>(1 + Below(random, 6));
  limit.units = Below(random, 2) == 0 ? 0 : AnyNumber(random);
  limit.verdict.admitted = Below(random, 2) == 0;
  limit.verdict.limit = AnyNumber(random);
  limit.verdict.remaining = AnyNumber(random);
  limit.verdict.reset_after = AnyDuration(random);
  limit.verdict.retry_after = Below(random, 3) == 0 ? Verdict::kNever : AnyDuration(random);
  limit.verdict.dropped = Below(random, 2) == 0 ? 0 : AnyNumber(random);
  return limit;
}

CheckAnswer AnyAnswer(Random& random, const IndexedRule& rule) {
  CheckAnswer answer{.decision = static_cast<Decision>(1 + Below(random, 2)),
                     .source = static_cast<Source>(1 + Below(random, 5)),
                     .wait = AnyDuration(random),
                     .decided_at = Time(AnyDuration(random))};
  if (Below(random, 2) == 0) answer.retry_after = AnyDuration(random);
  if (Below(random, 4) == 0) answer.lease = LeaseAnswer{AnyText(random), AnyDuration(random)};
  for (std::uint64_t i = Below(random, 4); i > 0; --i) {
    answer.limits.push_back(AnyLimit(random, rule));
  }
  for (std::uint64_t i = Below(random, 3); i > 0; --i) {
    answer.missing_attributes.push_back({&rule, Below(random, 2) == 0 ? "user" : "client_ip"});
  }
  answer.unknown_domain = Below(random, 4) == 0;
  answer.uncounted_amounts.assign(Below(random, 3), "tokens");
  return answer;
}

template <typename SecondsAndNanos>
void SetExpected(std::chrono::microseconds from, SecondsAndNanos& to) {
  to.set_seconds(from / std::chrono::seconds(1));
  to.set_nanos(static_cast<int>(from % std::chrono::seconds(1) / Duration(1) * 1'000));
}

void SetExpected(const LimitAnswer& from, v1::LimitStatus& to) {
  to.set_rule(from.rule->rule.name);
  to.set_index(from.index);
  if (from.algorithm) to.set_algorithm(static_cast<v1::Algorithm>(*from.algorithm));
  to.set_admitted(from.verdict.admitted);
  to.set_shadow(from.rule->rule.shadow);
  to.set_source(static_cast<v1::Source>(from.source));
  if (!from.verdict.admitted && from.verdict.retry_after != Verdict::kNever) {
    SetExpected(from.verdict.retry_after, *to.mutable_retry_after());
  }
  to.set_dropped_cost(static_cast<std::uint64_t>(from.verdict.dropped));
  to.set_units(static_cast<std::uint64_t>(from.units));
  if (!from.state_known) return;
  to.set_limit(static_cast<std::uint64_t>(from.verdict.limit));
  to.set_remaining(static_cast<std::uint64_t>(from.verdict.remaining));
  SetExpected(from.verdict.reset_after, *to.mutable_reset_after());
}

v1::CheckLimitResponse ResponseOf(const CheckAnswer& answer, const std::string& request_id) {
  v1::CheckLimitResponse response;
  response.set_decision(static_cast<v1::Decision>(answer.decision));
  response.set_source(static_cast<v1::Source>(answer.source));
  response.set_request_id(request_id);
  SetExpected(answer.decided_at.time_since_epoch(), *response.mutable_decided_at());
  const bool allowed = answer.decision == Decision::kAllowed;
  if (allowed && answer.wait > Duration::zero()) SetExpected(answer.wait, *response.mutable_wait());
  if (!allowed && answer.retry_after)
    SetExpected(*answer.retry_after, *response.mutable_retry_after());
  if (answer.lease) {
    response.mutable_lease()->set_id(answer.lease->id);
    SetExpected(answer.lease->ttl, *response.mutable_lease()->mutable_ttl());
  }
  for (const LimitAnswer& limit : answer.limits) SetExpected(limit, *response.add_limits());
  for (const MissingAttribute& from : answer.missing_attributes) {
    auto& to = *response.add_missing_attributes();
    to.set_rule(from.rule->rule.name);
    to.set_attribute(std::string(from.attribute));
  }
  response.set_unknown_domain(answer.unknown_domain);
  for (const auto& name : answer.uncounted_amounts) {
    response.add_uncounted_amounts(std::string(name));
  }
  return response;
}

TEST(AnswerWriter, AnyAnswer_EqualsTheGeneratedMessage) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const IndexedRule rule = AnyRule(random);
    const CheckAnswer answer = AnyAnswer(random, rule);
    const std::string id = AnyText(random);
    const auto expected = ResponseOf(answer, id);
    std::string written;
    AppendResponse(answer, id, written);
    ASSERT_EQ(written, expected.SerializeAsString()) << expected.ShortDebugString();

    v1::CheckLimitsResponse results;
    *results.add_results()->mutable_response() = expected;
    written.clear();
    AppendResult(answer, id, written);
    ASSERT_EQ(written, results.SerializeAsString());
  }
}

TEST(AnswerWriter, Errors_AreAppendedAsResults) {
  v1::CheckLimitsResponse expected;
  std::string written;
  for (const std::string& text : {std::string(), std::string("domain: is empty")}) {
    auto& error = *expected.add_results()->mutable_error();
    error.set_code(3);
    error.set_message(text);
    error.set_request_id("7");
    AppendResult(InvalidArgument(text), "7", written);
  }
  EXPECT_EQ(written, expected.SerializeAsString());
}

TEST(AnswerWriter, Renewal_HasTheTtl) {
  v1::RenewLeaseResponse expected;
  SetExpected(std::chrono::milliseconds(1'500), *expected.mutable_ttl());
  std::string written;
  AppendRenewal(std::chrono::milliseconds(1'500), written);
  EXPECT_EQ(written, expected.SerializeAsString());
}

}  // namespace
}  // namespace sluice
