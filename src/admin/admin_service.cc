#include "admin/admin_service.h"

#include <memory>
#include <string>
#include <utility>

#include "admin/counter_handlers.h"
#include "admin/rule_handlers.h"
#include "api/protobuf_log.h"

namespace sluice {

AdminService::AdminService(Limiter& limiter, AdminAccess access, Worker& worker, RuleSource* rules)
    : limiter_(limiter), access_(std::move(access)), worker_(worker), rules_(rules) {
  SendProtobufLogToOurs();
}

void AdminService::AddTo(rpc::Methods& methods) {
  const auto& service = *v1::ExplainRequest::descriptor()->file()->service(0);
  const auto add = [&](const char* name, auto make) {
    methods.push_back({.path = "/" + service.full_name() + "/" + name, .unary = std::move(make)});
  };
  add("Explain",
      [this](net::Loop&) { return std::make_unique<ExplainHandler>(access_, limiter_); });
  add("ResetLimit",
      [this](net::Loop&) { return std::make_unique<ResetLimitHandler>(access_, limiter_); });
  add("ListRules", [this](net::Loop& loop) {
    return std::make_unique<ListRulesHandler>(access_, loop, worker_, limiter_);
  });
  add("ReloadRules", [this](net::Loop& loop) {
    return std::make_unique<ReloadRulesHandler>(access_, loop, worker_, rules_);
  });
}

}  // namespace sluice
