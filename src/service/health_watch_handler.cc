#include "service/health_watch_handler.h"

#include <utility>

#include <grpc/health/v1/health.pb.h>

#include "service/health_messages.h"

namespace sluice {

using Response = grpc::health::v1::HealthCheckResponse;

void HealthWatchHandler::OnStart(const rpc::Call&) { state_ = State::kNoRequest; }

// An unknown service never becomes known, so its status is sent only once.
void HealthWatchHandler::OnMessage(std::string_view message) {
  const auto service = ParseHealthRequest(message);
  if (!service || state_ != State::kNoRequest) {
    return End({rpc::StatusCode::kInvalidArgument, "expects one HealthCheckRequest"});
  }
  told_ = Response::UNKNOWN;
  if (names_->contains(*service)) {
    state_ = State::kWatching;
    watchers_.insert(this);
    OnChange();
  } else {
    state_ = State::kUnknown;
    Tell(Response::SERVICE_UNKNOWN);
  }
}

void HealthWatchHandler::OnHalfClose() {
  if (state_ != State::kNoRequest) return;
  End({rpc::StatusCode::kInvalidArgument, "expects one HealthCheckRequest"});
}

void HealthWatchHandler::OnDrain() {
  if (state_ == State::kWatching) OnChange();
  End({rpc::StatusCode::kUnavailable, "this server is shutting down"});
}

void HealthWatchHandler::OnCancel() { End({.code = rpc::StatusCode::kCancelled}); }

void HealthWatchHandler::OnChange() {
  Tell(service_.serving() ? Response::SERVING : Response::NOT_SERVING);
}

// A server changes its status once, so the data queued for a caller that does not read is bounded.
void HealthWatchHandler::Tell(int status) {
  if (std::exchange(told_, status) != status) Send(HealthResponse(status));
}

void HealthWatchHandler::End(const rpc::Status& status) {
  watchers_.erase(this);
  state_ = State::kNoRequest;
  Finish(status);
}

}  // namespace sluice
