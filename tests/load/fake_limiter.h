// A fake RateLimiter server on a unix socket with scripted answers. The destructor stops it.
#pragma once

#include <functional>
#include <memory>

#include <grpcpp/server.h>

#include "base/address.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class FakeLimiter final : public v1::RateLimiter::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::CheckLimitsResponse, v1::CheckLimitsRequest>;

  // Each function may be called on several threads. If a function is not set, its method fails with
  // UNIMPLEMENTED.
  struct Answers {
    std::function<grpc::Status(const v1::CheckLimitRequest&, v1::CheckLimitResponse&)> check;
    std::function<grpc::Status(const v1::CheckLimitsRequest&, v1::CheckLimitsResponse&)> checks;
    std::function<grpc::Status(Stream&)> stream;
    int max_streams = 0;  // concurrent calls on a connection; 0: no limit
  };

  explicit FakeLimiter(Answers answers);
  ~FakeLimiter() override;

  const Address& address() const { return address_; }

 private:
  grpc::Status CheckLimit(grpc::ServerContext* context, const v1::CheckLimitRequest* request,
                          v1::CheckLimitResponse* response) override;
  grpc::Status CheckLimits(grpc::ServerContext* context, const v1::CheckLimitsRequest* request,
                           v1::CheckLimitsResponse* response) override;
  grpc::Status CheckLimitStream(grpc::ServerContext* context, Stream* stream) override;

  const Answers answers_;
  const TempDir dir_;
  Address address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice::test
