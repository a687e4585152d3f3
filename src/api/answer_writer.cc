#include "api/answer_writer.h"

#include <cstdint>

namespace sluice {
namespace {

// A message of this thread. Its memory is reused, because generated code is about as fast as
// hand-written code if it does not allocate. The message is empty, except that decided_at is kept.
// Clear would free decided_at, because the field is not `optional`. Fill overwrites decided_at.
v1::CheckLimitResponse& EmptyResponse() {
  thread_local v1::CheckLimitResponse response;
  google::protobuf::Timestamp* const decided_at = response.release_decided_at();
  response.Clear();
  response.set_allocated_decided_at(decided_at);
  return response;
}

// The state of a counter.
void FillState(const Verdict& verdict, v1::LimitStatus& to) {
  to.set_limit(static_cast<std::uint64_t>(verdict.limit));
  to.set_remaining(static_cast<std::uint64_t>(verdict.remaining));
  FillTime(verdict.reset_after, *to.mutable_reset_after());
}

}  // namespace

// Our enumerations have the same numbers as those in the API: see core/vocabulary.h.
void Fill(const LimitAnswer& answer, v1::LimitStatus& to) {
  const Verdict& verdict = answer.verdict;
  to.set_rule(answer.rule->rule.name);
  to.set_index(answer.index);
  if (answer.algorithm) to.set_algorithm(static_cast<v1::Algorithm>(*answer.algorithm));
  if (answer.state_known) {
    FillState(verdict, to);
  }
  if (!verdict.admitted && verdict.retry_after != Verdict::kNever) {
    FillTime(verdict.retry_after, *to.mutable_retry_after());
  }
  to.set_admitted(verdict.admitted);
  to.set_shadow(answer.rule->rule.shadow);
  to.set_source(static_cast<v1::Source>(answer.source));
  to.set_dropped_cost(static_cast<std::uint64_t>(verdict.dropped));
  to.set_units(static_cast<std::uint64_t>(answer.units));
}

void Fill(const CheckAnswer& answer, std::string_view request_id, v1::CheckLimitResponse& to) {
  to.set_decision(static_cast<v1::Decision>(answer.decision));
  if (answer.decision == Decision::kAllowed && answer.wait > Duration::zero()) {
    FillTime(answer.wait, *to.mutable_wait());
  }
  if (answer.decision == Decision::kDenied && answer.retry_after) {
    FillTime(*answer.retry_after, *to.mutable_retry_after());
  }
  to.set_source(static_cast<v1::Source>(answer.source));
  if (answer.lease) {
    to.mutable_lease()->set_id(answer.lease->id);
    FillTime(answer.lease->ttl, *to.mutable_lease()->mutable_ttl());
  }
  for (const LimitAnswer& limit : answer.limits) Fill(limit, *to.add_limits());
  FillTime(answer.decided_at.time_since_epoch(), *to.mutable_decided_at());
  to.set_request_id(request_id.data(), request_id.size());
  for (const MissingAttribute& from : answer.missing_attributes) {
    v1::MissingAttribute& missing = *to.add_missing_attributes();
    missing.set_rule(from.rule->rule.name);
    missing.set_attribute(from.attribute.data(), from.attribute.size());
  }
  to.set_unknown_domain(answer.unknown_domain);
  for (const std::string_view amount : answer.uncounted_amounts) {
    to.add_uncounted_amounts(amount.data(), amount.size());
  }
}

void AppendResponse(const CheckAnswer& answer, std::string_view request_id, std::string& out) {
  v1::CheckLimitResponse& response = EmptyResponse();
  Fill(answer, request_id, response);
  response.AppendToString(&out);
}

void AppendResult(const Result<CheckAnswer>& answer, std::string_view request_id,
                  std::string& out) {
  thread_local v1::CheckLimitsResponse results;
  results.Clear();
  v1::CheckLimitResult& result = *results.add_results();
  if (answer) {
    // The result only borrows the message, so clearing the result must not free the message.
    v1::CheckLimitResponse& response = EmptyResponse();
    Fill(*answer, request_id, response);
    result.set_allocated_response(&response);
    results.AppendToString(&out);
    static_cast<void>(result.release_response());
    return;
  }
  v1::CheckLimitError& error = *result.mutable_error();
  error.set_code(static_cast<int>(answer.error().code));
  error.set_message(answer.error().message);
  error.set_request_id(request_id.data(), request_id.size());
  results.AppendToString(&out);
}

void Fill(const LeasedLimit& limit, v1::LimitStatus& to) {
  to.set_rule(LeaseName::RuleOf(limit.counter));
  to.set_index(limit.counter.index);
  to.set_algorithm(static_cast<v1::Algorithm>(AlgorithmOf(limit.counter.limit)));
  FillState(limit.verdict, to);
  to.set_admitted(true);
  to.set_shadow(limit.counter.group > 0);
  to.set_source(static_cast<v1::Source>(limit.source));
  to.set_dropped_cost(static_cast<std::uint64_t>(limit.verdict.dropped));
  to.set_units(static_cast<std::uint64_t>(limit.units));
  to.set_held(static_cast<std::uint64_t>(limit.held));
}

void AppendSettlement(const LeaseReport& report, std::string& out) {
  v1::SettleLeaseResponse response;
  response.set_outcome(static_cast<v1::Outcome>(report.outcome));
  for (const LeasedLimit& limit : report.limits) Fill(limit, *response.add_limits());
  for (const std::string& name : report.uncounted_amounts) response.add_uncounted_amounts(name);
  response.AppendToString(&out);
}

void AppendRenewal(Duration ttl, std::string& out) {
  v1::RenewLeaseResponse response;
  FillTime(ttl, *response.mutable_ttl());
  response.AppendToString(&out);
}

}  // namespace sluice
