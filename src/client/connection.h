// What a Client holds of gRPC. Apart from client.h, so that callers need not compile the stubs.
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

  // A call made with `context` carries the token, and fails with DEADLINE_EXCEEDED after `timeout`.
  void Prepare(grpc::ClientContext& context, Duration timeout) const {
    context.set_deadline(gpr_time_from_micros(timeout.count(), GPR_TIMESPAN));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  }
};

}  // namespace sluice
