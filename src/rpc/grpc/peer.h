// The peer of a call, from gRPC's context.
//
// Thread-safe.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <string>
#include <string_view>

#include "net/peer.h"

namespace sluice::rpc::grpc_engine {

net::Peer PeerOf(const ::grpc::GenericCallbackServerContext& context);

// "192.0.2.1:4711", "[2001:db8::1]:4711" or "unix" from gRPC's "ipv4:192.0.2.1:4711",
// "ipv6:%5B2001:db8::1%5D:4711" or "unix:path".
std::string PeerAddress(std::string_view uri);

}  // namespace sluice::rpc::grpc_engine
