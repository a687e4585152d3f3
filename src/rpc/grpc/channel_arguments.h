// gRPC channel arguments of the server.
#pragma once

#include <grpcpp/server_builder.h>

#include <chrono>

#include "rpc/server.h"

namespace sluice::rpc::grpc_engine {

// gRPC counts pings that arrive less than this apart and closes the connection at the third one.
// Allows one ping every five seconds, even if the network delays some of them.
inline constexpr int kMinPingIntervalMs = 4'000;
// The server pings an idle connection after this time, and closes it if no reply arrives within
// kKeepaliveTimeoutMs.
inline constexpr int kKeepaliveTimeMs = 120'000;
inline constexpr int kKeepaliveTimeoutMs = 20'000;
inline constexpr int kMaxConcurrentStreams = 1024;
// Requests with larger header fields fail with RESOURCE_EXHAUSTED.
inline constexpr int kMaxMetadataBytes = 16 * 1024;

inline void SetChannelArguments(const ServerOptions& options, ::grpc::ServerBuilder& builder) {
  // A second server on the same port must fail, not take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  if (options.max_connection_age > Duration::zero()) {
    const auto age = std::chrono::ceil<std::chrono::milliseconds>(options.max_connection_age);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, static_cast<int>(age.count()));
  }
  // Messages are small, so bandwidth probes cost pings without a gain.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
}

}  // namespace sluice::rpc::grpc_engine
