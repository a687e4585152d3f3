// A RateLimiter on a unix socket that answers as the test says. Dies with its object.
#pragma once

#include <functional>
#include <memory>

#include <grpcpp/server.h>

#include "base/address.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class FakeServer final : public v1::RateLimiter::Service {
 public:
  // Called on any of several threads, for each check.
  using Answer = std::function<grpc::Status(const v1::CheckLimitRequest& request,
                                            v1::CheckLimitResponse& response)>;

  explicit FakeServer(Answer answer);
  ~FakeServer() override;

  const Address& address() const { return address_; }

 private:
  grpc::Status CheckLimit(grpc::ServerContext* context, const v1::CheckLimitRequest* request,
                          v1::CheckLimitResponse* response) override;

  const Answer answer_;
  const TempDir dir_;
  Address address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice::test
