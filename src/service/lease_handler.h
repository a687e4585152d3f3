// RenewLease and ReleaseLease: one handler for each.
//
// Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "limiter/lease_call.h"
#include "rpc/handler.h"

namespace sluice {

class LeaseHandler final : public rpc::UnaryHandler, private LeaseCall {
 public:
  using LeaseCall::Action;

  // `limiter` must outlive the handler.
  LeaseHandler(Limiter& limiter, Action action) : LeaseCall(limiter), action_(action) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;

 private:
  void OnLease(const Result<Duration>& ttl) override;

  const Action action_;
  std::string response_;
};

}  // namespace sluice
