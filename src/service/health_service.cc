#include "service/health_service.h"

#include <utility>

#include <grpc/health/v1/health.pb.h>

#include "api/protobuf_log.h"
#include "service/health_messages.h"
#include "service/health_watch_handler.h"
#include "service/service_names.h"

namespace sluice {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthCheckHandler final : public rpc::UnaryHandler {
 public:
  HealthCheckHandler(const HealthService& service,
                     std::shared_ptr<const HealthService::Names> names)
      : service_(service), names_(std::move(names)) {}

  void Serve(const rpc::Call&, std::string_view request) override {
    const auto name = ParseHealthRequest(request);
    if (!name) {
      return Finish(
          {rpc::StatusCode::kInvalidArgument, "the request is not a valid protobuf message"});
    }
    if (!names_->contains(*name)) {
      return Finish({rpc::StatusCode::kNotFound, "service: unknown on this server"});
    }
    Finish(HealthResponse(service_.serving() ? HealthCheckResponse::SERVING
                                             : HealthCheckResponse::NOT_SERVING));
  }

 private:
  const HealthService& service_;
  const std::shared_ptr<const HealthService::Names> names_;
};

}  // namespace

HealthService::HealthService()
    : watchers_([](net::Loop&) { return std::make_shared<Watchers>(); }) {
  SendProtobufLogToOurs();
}

HealthService::~HealthService() = default;

void HealthService::AddTo(rpc::Methods& methods, const std::vector<std::string>& other_names) {
  const auto& service = *HealthCheckRequest::descriptor()->file()->service(0);
  const auto listed = ServiceNames(methods);
  auto names = std::make_shared<Names>(listed.begin(), listed.end());
  names->insert({"", service.full_name()});
  names->insert(other_names.begin(), other_names.end());
  const std::string prefix = "/" + service.full_name() + "/";
  methods.push_back(
      {.path = prefix + "Check",
       .unary = [this,
                 names](net::Loop&) { return std::make_unique<HealthCheckHandler>(*this, names); },
       .is_probe = true});
  methods.push_back({.path = prefix + "Watch",
                     .stream =
                         [this, names](net::Loop& loop) {
                           return std::make_unique<HealthWatchHandler>(*this, names,
                                                                       watchers_.For(loop));
                         },
                     .is_probe = true});
}

// A watcher that is added after the task has run finds serving_ false.
void HealthService::StopServing() {
  serving_.store(false, std::memory_order_release);
  watchers_.PostToEach([](Watchers& watchers) {
    for (HealthWatchHandler* watcher : watchers) watcher->OnChange();
  });
}

}  // namespace sluice
