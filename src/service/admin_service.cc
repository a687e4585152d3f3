#include "service/admin_service.h"

#include <algorithm>

#include "base/log.h"
#include "limiter/explain.h"
#include "limiter/reset_limit.h"
#include "match/rule_yaml.h"
#include "service/api_codec.h"
#include "service/peer.h"

namespace sluice {
namespace {

// The views are into `request`.
template <typename Request>
CheckRequest ToCheckRequest(const grpc::ServerContext& context, const Request& request) {
  CheckRequest check;
  check.domain = request.domain();
  for (const auto& [name, value] : request.attributes()) check.attributes.push_back({name, value});
  check.deadline = ToSteadyTime(context.raw_deadline());
  return check;
}

void Fill(const ExplainedRule& from, v1::ExplainedRule& to) {
  to.set_rule(std::string(from.rule));
  to.set_effect(std::string(from.effect));
  to.set_reason(from.reason);
  for (const ExplainedCounter& counter : from.counters) {
    v1::ExplainedCounter& filled = *to.add_counters();
    filled.set_key(counter.key);
    FillStatus(counter.status, *filled.mutable_status());
  }
}

void Fill(const IndexedRule& from, v1::RuleInfo& to) {
  to.set_domain(from.domain);
  to.set_rule(from.rule.name);
  to.set_location(from.rule.location);
  to.set_yaml(ToYaml(from.rule));
}

}  // namespace

grpc::Status AdminService::Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                                   v1::ExplainResponse* response) {
  if (const auto admitted = Admit(*context); !admitted) return ToStatus(admitted.error());
  const auto show = [&](const Explanation& explanation) {
    FillResponse(explanation.answer, "", *response->mutable_response());
    for (const ExplainedRule& rule : explanation.rules) Fill(rule, *response->add_rules());
  };
  const auto shown = sluice::Explain(limiter_, ToCheckRequest(*context, *request), show);
  return shown ? grpc::Status::OK : ToStatus(shown.error());
}

grpc::Status AdminService::ResetLimit(grpc::ServerContext* context,
                                      const v1::ResetLimitRequest* request,
                                      v1::ResetLimitResponse* response) {
  if (const auto admitted = Admit(*context); !admitted) return ToStatus(admitted.error());
  auto keys = sluice::ResetLimit(limiter_, ToCheckRequest(*context, *request), request->rule());
  if (!keys) return ToStatus(keys.error());
  for (std::string& key : *keys) response->add_keys(std::move(key));
  return grpc::Status::OK;
}

grpc::Status AdminService::ListRules(grpc::ServerContext* context,
                                     const v1::ListRulesRequest* request,
                                     v1::ListRulesResponse* response) {
  if (const auto admitted = Admit(*context); !admitted) return ToStatus(admitted.error());
  const auto rules = limiter_.rules();
  for (const IndexedRule& rule : rules->index->rules()) {
    const bool wanted = request->domain().empty() || request->domain() == rule.domain;
    if (wanted) Fill(rule, *response->add_rules());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ReloadRules(grpc::ServerContext* context, const v1::ReloadRulesRequest*,
                                       v1::ReloadRulesResponse* response) {
  if (const auto admitted = Admit(*context); !admitted) return ToStatus(admitted.error());
  if (rules_ == nullptr) {
    return {grpc::StatusCode::UNIMPLEMENTED, "this server's rules cannot be read again"};
  }
  const ReloadResult result = rules_->Reload();
  response->set_applied(result.applied);
  for (const std::string& error : result.errors) response->add_errors(error);
  response->set_rules(result.rules);
  FillTime(result.loaded_at, *response->mutable_loaded_at());
  return grpc::Status::OK;
}

Result<void> AdminService::Admit(const grpc::ServerContext& context) const {
  const auto& headers = context.client_metadata();
  const auto [first, last] = headers.equal_range("authorization");
  AdminDoor::Caller caller{.local = IsLocalPeer(context.peer())};
  if (std::distance(first, last) == 1) {
    caller.authorization = std::string_view(first->second.data(), first->second.size());
  }
  auto admitted = door_.Admit(caller);
  if (!admitted) {
    spdlog::debug("admin: {} turned away: {}", context.peer(), admitted.error().message);
  }
  return admitted;
}

}  // namespace sluice
