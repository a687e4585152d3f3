#include "admin/counter_handlers.h"

#include <utility>

#include "api/answer_writer.h"
#include "base/log.h"

namespace sluice {
namespace {

void Fill(const ExplainedRule& from, v1::ExplainedRule& to) {
  to.set_rule(std::string(from.rule));
  to.set_effect(std::string(from.effect));
  to.set_reason(from.reason);
  for (const ExplainedCounter& counter : from.counters) {
    v1::ExplainedCounter& filled = *to.add_counters();
    filled.set_key(counter.key);
    std::string status;
    AppendLimitStatus(counter.status, status);
    filled.mutable_status()->ParseFromString(status);
  }
}

}  // namespace

AdminAccess::Caller OperatorOf(const rpc::Call& call) {
  return {.authorization = call.Metadata("authorization"), .peer = call.peer()};
}

Result<std::string_view> AdmitOperator(const AdminAccess& access, const rpc::Call& call) {
  const AdminAccess::Caller caller = OperatorOf(call);
  auto admitted = access.Admit(caller);
  if (!admitted) {
    if (admitted.error().code == ErrorCode::kUnauthenticated) access.NoteRefused(caller);
    spdlog::debug("admin: {} refused: {}", call.peer().address, admitted.error().message);
  }
  return admitted;
}

void ExplainHandler::Answer(const rpc::Call& call) {
  Start(ToCheckRequest(message(), call.deadline()));
}

void ExplainHandler::OnExplained(const Result<Explanation>& explanation) {
  if (!explanation) return Fail(explanation.error());
  v1::ExplainResponse response;
  std::string answer;
  AppendResponse(explanation->answer, "", answer);
  response.mutable_response()->ParseFromString(answer);
  for (const ExplainedRule& rule : explanation->rules) Fill(rule, *response.add_rules());
  FinishWith(response);
}

// Attributes may be personal or secret.
void ResetLimitHandler::Answer(const rpc::Call& call) {
  spdlog::info("admin: {} resets counters of domain \"{}\", {}", caller(),
               LogText(message().domain()),
               message().rule().empty() ? "all rules" : "rule " + LogText(message().rule()));
  Start(ToCheckRequest(message(), call.deadline()), message().rule());
}

void ResetLimitHandler::OnReset(Result<std::vector<std::string>> keys) {
  if (!keys) return Fail(keys.error());
  v1::ResetLimitResponse response;
  for (std::string& key : *keys) response.add_keys(std::move(key));
  FinishWith(response);
}

}  // namespace sluice
