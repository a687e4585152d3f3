#include "service/health_service.h"

#include <cstddef>
#include <optional>
#include <utility>

#include <grpc/health/v1/health.pb.h>

#include "api/received_message.h"

namespace sluice {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

// A watcher that has this many unsent bytes or more gets no changes. When it reads again, it gets
// the latest status.
constexpr std::size_t kMaxUnsent = 64;

// The name of the requested service. std::nullopt if the bytes are malformed.
std::optional<std::string> ParseRequest(std::string_view bytes) {
  HealthCheckRequest request;
  if (!ParseMessage(bytes, request)) return std::nullopt;
  return std::move(*request.mutable_service());
}

std::string ResponseOf(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return response.SerializeAsString();
}

HealthCheckResponse::ServingStatus StatusOf(const HealthService& service) {
  return service.serving() ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

class CheckHandler final : public rpc::UnaryHandler {
 public:
  explicit CheckHandler(const HealthService& service) : service_(service) {}

  void Serve(const rpc::Call&, std::string_view request) override {
    const auto name = ParseRequest(request);
    if (!name) {
      return Finish(
          {rpc::StatusCode::kInvalidArgument, "the request is not a valid protobuf message"});
    }
    if (!service_.Has(*name)) {
      return Finish({rpc::StatusCode::kNotFound, "service: unknown on this server"});
    }
    Finish(ResponseOf(StatusOf(service_)));
  }

 private:
  const HealthService& service_;
};

}  // namespace

// Sends the status, and each change, until either side ends the call.
class HealthService::WatchHandler final : public rpc::StreamHandler {
 public:
  // `watchers` belong to the loop. They and `service` must outlive the handler.
  WatchHandler(const HealthService& service, Watchers& watchers)
      : service_(service), watchers_(watchers) {}

  void OnStart(const rpc::Call&) override { state_ = State::kNoRequest; }

  // An unknown service never becomes known, so its status is sent only once.
  void OnMessage(std::string_view message) override {
    const auto name = ParseRequest(message);
    if (!name || state_ != State::kNoRequest) {
      return End({rpc::StatusCode::kInvalidArgument, "expects one HealthCheckRequest"});
    }
    last_status_ = HealthCheckResponse::UNKNOWN;
    if (service_.Has(*name)) {
      state_ = State::kWatching;
      watchers_.insert(this);
      OnChange();
    } else {
      state_ = State::kUnknown;
      SendIfChanged(HealthCheckResponse::SERVICE_UNKNOWN);
    }
  }

  void OnHalfClose() override {
    if (state_ != State::kNoRequest) return;
    End({rpc::StatusCode::kInvalidArgument, "expects one HealthCheckRequest"});
  }

  void OnDrain() override {
    if (state_ == State::kWatching) OnChange();
    End({rpc::StatusCode::kUnavailable, "this server is shutting down"});
  }

  void OnWritable() override {
    if (state_ == State::kWatching) OnChange();
  }

  void OnCancel() override { End({.code = rpc::StatusCode::kCancelled}); }

  // The service's status may have changed. REQUIRES: the handler is in `watchers`.
  void OnChange() { SendIfChanged(StatusOf(service_)); }

 private:
  enum class State {
    kNoRequest,  // the request has not arrived yet
    kWatching,
    kUnknown,  // watches a service that this server does not have
  };

  void SendIfChanged(HealthCheckResponse::ServingStatus status) {
    if (status == last_status_ || unsent_bytes() >= kMaxUnsent) return;
    last_status_ = status;
    Send(ResponseOf(status));
  }

  void End(const rpc::Status& status) {
    watchers_.erase(this);
    state_ = State::kNoRequest;
    Finish(status);
  }

  const HealthService& service_;
  Watchers& watchers_;

  State state_ = State::kNoRequest;
  HealthCheckResponse::ServingStatus last_status_ = HealthCheckResponse::UNKNOWN;  // sent
};

HealthService::HealthService()
    : watchers_([](net::Loop&) { return std::make_shared<Watchers>(); }) {
  SendProtobufLogToOurs();
}

HealthService::~HealthService() = default;

void HealthService::AddTo(rpc::Methods& methods, const std::vector<std::string>& other_names) {
  const auto& service = *HealthCheckRequest::descriptor()->file()->service(0);
  const auto listed = rpc::ServiceNames(methods);
  names_ = {"", service.full_name()};
  names_.insert(listed.begin(), listed.end());
  names_.insert(other_names.begin(), other_names.end());
  const std::string prefix = "/" + service.full_name() + "/";
  methods.push_back({.path = prefix + "Check",
                     .unary = [this](net::Loop&) { return std::make_unique<CheckHandler>(*this); },
                     .is_probe = true});
  methods.push_back({.path = prefix + "Watch",
                     .stream =
                         [this](net::Loop& loop) {
                           return std::make_unique<WatchHandler>(*this, watchers_.For(loop));
                         },
                     .is_probe = true});
}

void HealthService::SetReady(bool ready) {
  if (ready_.exchange(ready, std::memory_order_acq_rel) != ready) Notify();
}

void HealthService::StopServing() {
  stopping_.store(true, std::memory_order_release);
  Notify();
}

// A watcher that is added after the task has run finds the new status.
void HealthService::Notify() {
  watchers_.PostToEach([](Watchers& watchers) {
    for (WatchHandler* watcher : watchers) watcher->OnChange();
  });
}

}  // namespace sluice
