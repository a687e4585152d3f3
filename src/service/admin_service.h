// The operators' API over gRPC. Every RPC passes the door first.
//
// Thread-safe. Its RPCs block, on threads of gRPC's own: never on those of the checks' queues.
#pragma once

#include <sluice/v1/admin.grpc.pb.h>

#include "limiter/admin_door.h"
#include "limiter/limiter.h"
#include "limiter/rule_source.h"

namespace sluice {

class AdminService final : public v1::Admin::Service {
 public:
  // All must outlive the service. Without `rules`, ReloadRules is UNIMPLEMENTED.
  AdminService(Limiter& limiter, const AdminDoor& door, RuleSource* rules)
      : limiter_(limiter), door_(door), rules_(rules) {}

  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override;
  grpc::Status ResetLimit(grpc::ServerContext* context, const v1::ResetLimitRequest* request,
                          v1::ResetLimitResponse* response) override;
  grpc::Status ListRules(grpc::ServerContext* context, const v1::ListRulesRequest* request,
                         v1::ListRulesResponse* response) override;
  grpc::Status ReloadRules(grpc::ServerContext* context, const v1::ReloadRulesRequest* request,
                           v1::ReloadRulesResponse* response) override;

 private:
  Result<void> Admit(const grpc::ServerContext& context) const;

  Limiter& limiter_;
  const AdminDoor& door_;
  RuleSource* const rules_;
};

}  // namespace sluice
