// Where a caller of gRPC is.
#pragma once

#include <string_view>

namespace sluice {

// Whether `peer`, as grpc::ServerContext::peer() writes it, is on this machine: a unix socket, or a
// loopback address. Whatever cannot be read is not.
bool IsLocalPeer(std::string_view peer);

}  // namespace sluice
