#include "service/rate_limiter_service.h"

#include <sluice/v1/rate_limiter.pb.h>

#include "service/check_limit_handler.h"
#include "service/check_stream_handler.h"
#include "service/lease_handler.h"

namespace sluice {

RateLimiterService::RateLimiterService(Limiter& limiter, const CallerAccess* access)
    : limiter_(limiter),
      access_(access),
      shared_([&limiter](net::Loop& loop) { return std::make_shared<Shared>(loop, limiter); }) {}

void RateLimiterService::TrimPools() {
  shared_.PostToEach([](Shared& shared) { shared.items.Trim(); });
}

void RateLimiterService::AddTo(rpc::Methods& methods) {
  const auto& service = *v1::CheckLimitRequest::descriptor()->file()->service(0);
  const std::string prefix = "/" + service.full_name() + "/";
  const auto add_unary = [&](const char* name, auto make) {
    methods.push_back({.path = prefix + name, .unary = std::move(make)});
  };
  add_unary("CheckLimit", [this](net::Loop& loop) {
    return std::make_unique<CheckLimitHandler>(limiter_, shared_.For(loop).response, access_);
  });
  add_unary("CheckLimits", [this](net::Loop& loop) {
    Shared& shared = shared_.For(loop);
    return std::make_unique<CheckLimitsHandler>(shared.batches, shared.items, shared.response,
                                                access_);
  });
  methods.push_back({.path = prefix + "CheckLimitStream", .stream = [this](net::Loop& loop) {
                       return std::make_unique<CheckStreamHandler>(loop, shared_.For(loop).items,
                                                                   access_);
                     }});
  using Action = LeaseHandler::Action;
  for (const auto& [name, action] :
       {std::pair("RenewLease", Action::kRenew), std::pair("ReleaseLease", Action::kRelease),
        std::pair("SettleLease", Action::kSettle)}) {
    add_unary(name, [this, action = action](net::Loop&) {
      return std::make_unique<LeaseHandler>(limiter_, action, access_);
    });
  }
}

}  // namespace sluice
