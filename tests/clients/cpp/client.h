// The test cases of ../run.py with the C++ gRPC library. A case that fails throws a Failure.
//
// Not thread-safe.
#pragma once

#include <grpc/health/v1/health.grpc.pb.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/clients/cpp/requests.h"

namespace sluice {

using grpc::health::v1::HealthCheckResponse;
using Flags = std::map<std::string, std::string>;

class Client {
 public:
  explicit Client(Flags flags)
      : flags_(std::move(flags)),
        channel_(Connect(flags_.at("address"))),
        limiter_(channel_),
        health_(channel_) {}

  void Unary();
  void Batch();
  void StreamOfFrames();
  void Metadata();
  void ErrorMessage();
  void LargeBatchOfChecks();
  void TooLarge();
  void UnknownMethod();
  void Gzip();
  void Deadline();
  void Cancel();
  void Concurrent();
  void HealthCheck();
  void HealthWatch();
  void Reflection();
  void Keepalive();
  void Reconnect();
  void GracefulStop();

 private:
  using Channel = std::shared_ptr<grpc::Channel>;

  Channel Connect(const std::string& to, const grpc::ChannelArguments& arguments = {}) const;
  grpc::Status TryOne(const v1::CheckLimitRequest& request, v1::CheckLimitResponse& answer,
                      bool gzip = false);
  v1::CheckLimitResponse One(const v1::CheckLimitRequest& request);
  v1::CheckLimitsResponse Many(const v1::CheckLimitsRequest& request, bool gzip = false);
  void ExpectHealth(const std::string& service, HealthCheckResponse::ServingStatus wanted);
  void ExpectChannelWorks(const std::string& user);

  const Flags flags_;
  const Channel channel_;
  v1::RateLimiter::Stub limiter_;
  grpc::health::v1::Health::Stub health_;
};

}  // namespace sluice
