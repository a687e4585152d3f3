// What a Client holds of gRPC. Apart from client.h, so that callers need not compile the stubs.
//
// Thread-safe, as gRPC's channels and stubs are.
#pragma once

#include <memory>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "client/client.h"
#include "sluice/v1/rate_limiter.grpc.pb.h"

namespace sluice {

struct Client::Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::RateLimiter::Stub> stub;
};

// A call made with `context` fails with DEADLINE_EXCEEDED after `timeout` from now.
inline void SetTimeout(grpc::ClientContext& context, Duration timeout) {
  context.set_deadline(gpr_time_from_micros(timeout.count(), GPR_TIMESPAN));
}

}  // namespace sluice
