#include "admin/rule_handlers.h"

#include "base/log.h"
#include "config/rule_yaml.h"

namespace sluice {
namespace {

void Fill(const IndexedRule& from, v1::RuleInfo& to) {
  to.set_domain(from.domain);
  to.set_rule(from.rule.name);
  to.set_location(from.rule.location);
  to.set_yaml(ToYaml(from.rule));
}

// The rules of `domain`, or of all domains.
v1::ListRulesResponse RulesOf(const Limiter& limiter, const std::string& domain) {
  v1::ListRulesResponse response;
  const auto rules = limiter.rules();
  for (const IndexedRule& rule : rules->index->rules()) {
    if (domain.empty() || domain == rule.domain) Fill(rule, *response.add_rules());
  }
  return response;
}

v1::ReloadRulesResponse ToResponse(const ReloadResult& result) {
  v1::ReloadRulesResponse response;
  response.set_applied(result.applied);
  response.set_unchanged(result.unchanged);
  for (const std::string& error : result.errors) response.add_errors(error);
  response.set_rules(result.rules);
  const auto at = result.loaded_at.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  response.mutable_loaded_at()->set_seconds(seconds.count());
  response.mutable_loaded_at()->set_nanos(
      static_cast<std::int32_t>(std::chrono::nanoseconds(at - seconds).count()));
  return response;
}

}  // namespace

void ListRulesHandler::Answer(const rpc::Call&) {
  spdlog::info("admin: {} lists the rules", caller());
  FinishFromWorker([&limiter = limiter_, domain = message().domain()] {
    return RulesOf(limiter, domain).SerializeAsString();
  });
}

void ReloadRulesHandler::Answer(const rpc::Call&) {
  if (rules_ == nullptr) {
    return Fail({ErrorCode::kUnimplemented, "this server's rules cannot be read again"});
  }
  spdlog::info("admin: {} reads the rules again", caller());
  FinishFromWorker([rules = rules_] { return ToResponse(rules->Reload()).SerializeAsString(); });
}

}  // namespace sluice
