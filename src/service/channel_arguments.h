// gRPC's settings of connections, apart from the server so that what they cost can be measured.
#pragma once

#include <grpcpp/server_builder.h>

namespace sluice {

// Client pings more often than this are an abuse.
inline constexpr int kMinPingIntervalMs = 10'000;
// A connection that says nothing for so long is pinged, and closed if it stays silent.
inline constexpr int kKeepaliveTimeMs = 120'000;
inline constexpr int kKeepaliveTimeoutMs = 20'000;
inline constexpr int kMaxConcurrentStreams = 4096;

inline void SetChannelArguments(grpc::ServerBuilder& builder) {
  // A second server on the same port must fail, not take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Messages are small: probing the path's bandwidth costs pings and gains nothing.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // A call ends long before gRPC's timer for it could: checks heed the caller's deadline
  // themselves.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);
  // Answers are too small to compress. Requests that come compressed are still understood.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
}

}  // namespace sluice
