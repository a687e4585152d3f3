// RenewLease and ReleaseLease: one handler for each.
//
// Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "api/caller_access.h"
#include "limiter/lease_call.h"
#include "rpc/handler.h"

namespace sluice {

class LeaseHandler final : public rpc::UnaryHandler, private LeaseCall {
 public:
  using LeaseCall::Action;

  // Without `access` every caller is admitted. Both must outlive the handler.
  LeaseHandler(Limiter& limiter, Action action, const CallerAccess* access = nullptr)
      : LeaseCall(limiter), action_(action), access_(access) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;

 private:
  void OnLease(const Result<Duration>& ttl) override;
  Result<void> Admit(const rpc::Call& call, std::string_view lease_id) const;

  const Action action_;
  const CallerAccess* const access_;
  std::string lease_id_;  // while it is asked about
  std::string response_;
};

}  // namespace sluice
