// The standard Health service: whether this server serves, as a whole ("") or as RateLimiter. It
// does until it is told to stop.
//
// Not gRPC's own: that one (of gRPC 1.51) is made of callbacks, for whose sake gRPC starts threads
// that poll all connections beside ours and cost a quarter of the throughput. Served asynchronously
// instead, on the queues of the checks.
//
// Thread-safe.
#pragma once

#include <string_view>
#include <unordered_set>

#include <grpc/health/v1/health.grpc.pb.h>

#include "base/mutex.h"

namespace sluice {

class HealthService final
    : public grpc::health::v1::Health::WithRawMethod_Check<
          grpc::health::v1::Health::WithAsyncMethod_Watch<grpc::health::v1::Health::Service>> {
 public:
  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;
  using Status = Response::ServingStatus;

  // Who is told of changes.
  class Watcher {
   public:
    // On any thread, one status after the other. Must not call the service.
    virtual void OnStatus(Status status) = 0;

   protected:
    ~Watcher() = default;
  };

  // SERVICE_UNKNOWN if there is no such service.
  Status StatusOf(std::string_view name) const;

  // Tells `watcher` the status, before it returns, and each change from then on until Unwatch.
  void Watch(std::string_view name, Watcher& watcher);
  // Nothing is told any more. Also for one that does not watch.
  void Unwatch(Watcher& watcher);

  // Everything is NOT_SERVING from now on.
  void StopServing();

 private:
  mutable Mutex mutex_;
  Status status_ SLUICE_GUARDED_BY(mutex_) = Response::SERVING;  // of all there is
  std::unordered_set<Watcher*> watchers_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
