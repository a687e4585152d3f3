// The Admin service of the API: Explain, ResetLimit, ListRules and ReloadRules, for callers
// admitted by the listener's AdminAccess.
//
// Thread-safe.
#pragma once

#include "admin/admin_access.h"
#include "admin/rule_source.h"
#include "base/worker.h"
#include "limiter/limiter.h"
#include "rpc/method.h"

namespace sluice {

// All must outlive the servers that use the methods. Stop `worker` before these servers are
// destroyed.
struct AdminDependencies {
  Limiter& limiter;
  AdminAccess access;
  Worker& worker;
  RuleSource* rules = nullptr;  // null: ReloadRules is UNIMPLEMENTED
};

void AddAdmin(rpc::Methods& methods, AdminDependencies dependencies);

}  // namespace sluice
