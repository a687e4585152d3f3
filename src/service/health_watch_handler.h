// Watch of the Health service: sends the status, and each change, until either side ends the call.
//
// Loop thread only.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "rpc/handler.h"
#include "service/health_service.h"

namespace sluice {

class HealthWatchHandler final : public rpc::StreamHandler {
 public:
  // `watchers` are the loop's. They and `service` must outlive the handler.
  HealthWatchHandler(const HealthService& service,
                     std::shared_ptr<const HealthService::Names> names,
                     HealthService::Watchers& watchers)
      : service_(service), names_(std::move(names)), watchers_(watchers) {}

  void OnStart(const rpc::Call& call) override;
  void OnMessage(std::string_view message) override;
  void OnHalfClose() override;
  void OnDrain() override;
  void OnCancel() override;

  // The service's status may have changed. REQUIRES: the handler is in `watchers`.
  void OnChange();

 private:
  enum class State {
    kNoRequest,  // the request has not arrived yet
    kWatching,
    kUnknown,  // watches a service that this server does not have
  };

  void Tell(int status);
  void End(const rpc::Status& status);

  const HealthService& service_;
  const std::shared_ptr<const HealthService::Names> names_;
  HealthService::Watchers& watchers_;

  State state_ = State::kNoRequest;
  int told_ = 0;  // the last status sent; 0 if none
};

}  // namespace sluice
