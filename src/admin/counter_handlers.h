// Explain and ResetLimit: the operator calls for the counters of a request. Neither blocks.
//
// Loop thread only.
#pragma once

#include <string>
#include <vector>

#include <sluice/v1/admin.pb.h>

#include "admin/admin_handler.h"
#include "admin/explain.h"
#include "admin/reset_limit.h"

namespace sluice {

class ExplainHandler final : public AdminHandler<v1::ExplainRequest>, private ExplainCall {
 public:
  // Both must outlive the handler.
  ExplainHandler(const AdminAccess& access, Limiter& limiter)
      : AdminHandler(access), ExplainCall(limiter) {}

 private:
  void Answer(const rpc::Call& call) override;
  void OnExplained(const Result<Explanation>& explanation) override;
};

class ResetLimitHandler final : public AdminHandler<v1::ResetLimitRequest>, private ResetCall {
 public:
  // Both must outlive the handler.
  ResetLimitHandler(const AdminAccess& access, Limiter& limiter)
      : AdminHandler(access), ResetCall(limiter) {}

 private:
  void Answer(const rpc::Call& call) override;
  void OnReset(Result<std::vector<std::string>> keys) override;
};

}  // namespace sluice
