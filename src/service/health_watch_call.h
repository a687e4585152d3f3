// One Watch RPC of the Health service after the other: writes the status, and each change.
//
// A caller that does not read costs no more memory than one that does: of the statuses it has not
// been written, only the latest is kept. The RPC ends when the caller leaves, or when the server
// drains, after the last status.
//
// Started, written and finished on the queue's threads, told of changes on any.
#pragma once

#include <optional>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include "base/mutex.h"
#include "service/health_service.h"
#include "service/queued_call.h"

namespace sluice {

class HealthWatchCall final : public QueuedCall, private HealthService::Watcher {
 public:
  // `pool` and `service` must outlive the call.
  HealthWatchCall(CallPool& pool, HealthService& service)
      : QueuedCall(pool, Kind::kStream), service_(service) {}

 private:
  // Of one RPC.
  struct Progress {
    bool open = false;  // the caller has been served
    bool writing = false;
    bool finishing = false;
    bool finished = false;
    bool done = false;                            // gRPC knows no more of the RPC
    std::optional<HealthService::Status> status;  // to be written
    std::optional<grpc::Status> end;              // once it is to end

    bool over() const { return finished && done; }
  };

  void RequestNext(void* tag) override;
  void LetGo() override;
  void Serve() override;
  void Drain() override;
  void OnStatus(HealthService::Status status) override;

  void OnWritten(bool ok);
  void OnFinished(bool ok);
  // The caller has left, or been sent the end.
  void OnDone(bool ok);

  // Nothing of this object may be touched after it: see EndOfRpc.
  void LeaveUnwatched() SLUICE_EXCLUDES(mutex_);

  // Does what can be done next.
  void Advance() SLUICE_REQUIRES(mutex_);
  void End(const grpc::Status& status) SLUICE_REQUIRES(mutex_);
  void Write(HealthService::Status status) SLUICE_REQUIRES(mutex_);

  HealthService& service_;
  EventOf<HealthWatchCall, &HealthWatchCall::OnWritten> written_{*this};
  EventOf<HealthWatchCall, &HealthWatchCall::OnFinished> finished_{*this};
  EventOf<HealthWatchCall, &HealthWatchCall::OnDone> done_{*this};

  std::optional<grpc::ServerContext> context_;
  HealthService::Request request_;

  // Touched with mutex_ held, once the RPC is served.
  std::optional<grpc::ServerAsyncWriter<HealthService::Response>> writer_;

  Mutex mutex_;  // may be locked while the service holds its own, not the other way round
  Progress progress_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
