// One CheckLimits RPC after the other: many checks, one answer with all of their results.
//
// The checks are started one after the other on the queue's thread and answered on any; whoever
// answers the last one answers the RPC.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include "service/check_item_pool.h"
#include "service/rate_limiter_service.h"
#include "service/unary_call.h"

namespace sluice {

class CheckLimitsCall final : public UnaryCall, private CheckItem::Owner {
 public:
  // `pool`, `service` and `items` must outlive the call.
  CheckLimitsCall(CallPool& pool, RateLimiterService& service, CheckItemPool& items)
      : UnaryCall(pool, service, &RateLimiterService::RequestCheckLimits), item_pool_(items) {}

 private:
  void Serve() override;
  void OnAnswered(CheckItem& item) override;
  grpc::ByteBuffer Results() const;

  CheckItemPool& item_pool_;

  // Of one RPC.
  std::vector<std::string_view> checks_;
  CheckItemPool::Items items_;  // one for each of checks_
  std::atomic<std::size_t> unanswered_ = 0;
};

}  // namespace sluice
