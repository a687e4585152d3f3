// A fake RateLimiter server on a unix socket with scripted answers. Its destructor stops it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <grpcpp/server.h>

#include "base/address.h"
#include "base/mutex.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class FakeServer final : public v1::RateLimiter::Service {
 public:
  // Called for each check, on several threads.
  using Answer = std::function<grpc::Status(const v1::CheckLimitRequest& request,
                                            v1::CheckLimitResponse& response)>;

  // Called for each renewal and release. Without `renew`, renewals find no lease. Without
  // `release`, releases succeed.
  struct Leases {
    std::function<grpc::Status(const v1::RenewLeaseRequest& request,
                               v1::RenewLeaseResponse& response)>
        renew;
    std::function<grpc::Status(const v1::ReleaseLeaseRequest& request)> release;
  };

  explicit FakeServer(Answer answer) : FakeServer(std::move(answer), {}) {}
  FakeServer(Answer answer, Leases leases);
  ~FakeServer() override;

  const Address& address() const { return address_; }

  // The authorization header of the last check that had one.
  std::string authorization() const {
    const MutexLock lock(mutex_);
    return authorization_;
  }

 private:
  grpc::Status CheckLimit(grpc::ServerContext* context, const v1::CheckLimitRequest* request,
                          v1::CheckLimitResponse* response) override;

  grpc::Status RenewLease(grpc::ServerContext* context, const v1::RenewLeaseRequest* request,
                          v1::RenewLeaseResponse* response) override;
  grpc::Status ReleaseLease(grpc::ServerContext* context, const v1::ReleaseLeaseRequest* request,
                            v1::ReleaseLeaseResponse* response) override;

  mutable Mutex mutex_;
  std::string authorization_ SLUICE_GUARDED_BY(mutex_);
  const Answer answer_;
  const Leases leases_;
  const TempDir dir_;
  Address address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice::test
