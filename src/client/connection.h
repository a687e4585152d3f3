// The gRPC objects of a Client. Separate from client.h, so that its users do not include the stubs.
//
// Thread-safe, as gRPC's channels and stubs are.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "client/client.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"

namespace sluice {

struct Client::Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::RateLimiter::Stub> stub;
  std::string token;

  // Adds the token and a deadline after `timeout` to `context`.
  void Prepare(grpc::ClientContext& context, Duration timeout) const {
    context.set_deadline(gpr_time_from_micros(timeout.count(), GPR_TIMESPAN));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  }
};

}  // namespace sluice
