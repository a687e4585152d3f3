#include "service/health_service.h"

#include <sluice/v1/rate_limiter.grpc.pb.h>

namespace sluice {
namespace {

bool Exists(std::string_view name) {
  return name.empty() || name == v1::RateLimiter::service_full_name();
}

}  // namespace

HealthService::Status HealthService::StatusOf(std::string_view name) const {
  if (!Exists(name)) return Response::SERVICE_UNKNOWN;
  const MutexLock lock(mutex_);
  return status_;
}

// What does not exist never will: its watchers have heard all.
void HealthService::Watch(std::string_view name, Watcher& watcher) {
  if (!Exists(name)) return watcher.OnStatus(Response::SERVICE_UNKNOWN);
  const MutexLock lock(mutex_);
  watchers_.insert(&watcher);
  watcher.OnStatus(status_);
}

void HealthService::Unwatch(Watcher& watcher) {
  const MutexLock lock(mutex_);
  watchers_.erase(&watcher);
}

void HealthService::StopServing() {
  const MutexLock lock(mutex_);
  status_ = Response::NOT_SERVING;
  for (Watcher* watcher : watchers_) watcher->OnStatus(status_);
}

}  // namespace sluice
