// The Admin service of the API: Explain, ResetLimit, ListRules and ReloadRules, for callers
// admitted by the listener's AdminAccess. A server with two listeners has two of these.
//
// Thread-safe. Must outlive the servers that use its methods. Stop `worker` before them.
#pragma once

#include "admin/admin_access.h"
#include "admin/rule_source.h"
#include "base/worker.h"
#include "limiter/limiter.h"
#include "rpc/method.h"

namespace sluice {

class AdminService {
 public:
  // All must outlive the service. Without `rules`, ReloadRules is UNIMPLEMENTED.
  AdminService(Limiter& limiter, AdminAccess access, Worker& worker, RuleSource* rules);

  void AddTo(rpc::Methods& methods);

 private:
  Limiter& limiter_;
  const AdminAccess access_;
  Worker& worker_;
  RuleSource* const rules_;
};

}  // namespace sluice
