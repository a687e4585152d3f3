// RenewLease, ReleaseLease and SettleLease: one handler for each.
//
// Loop thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sluice/v1/rate_limiter.pb.h>

#include "api/caller_access.h"
#include "limiter/lease_call.h"
#include "rpc/handler.h"

namespace sluice {

class LeaseHandler final : public rpc::UnaryHandler, private LeaseCall {
 public:
  using LeaseCall::Action;

  // If `access` is null, every caller is admitted. `limiter` and `access` must outlive the handler.
  LeaseHandler(Limiter& limiter, Action action, const CallerAccess* access = nullptr)
      : LeaseCall(limiter), action_(action), access_(access) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;

 private:
  void OnLease(const Result<LeaseReport>& report) override;
  bool Parse(std::string_view bytes);
  Result<void> InterpretHold(Usage& usage) const;

  const Action action_;
  const CallerAccess* const access_;
  v1::SettleLeaseRequest message_;  // for other actions, only the fields of their requests are set
  std::vector<Amount> amounts_;     // views of message_
  std::string response_;
};

}  // namespace sluice
