// Credentials of gRPC's server that come from a net::TlsServerContext: the same certificates as
// everywhere, those of its last reload for connections from then on.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "net/tls_context.h"

namespace sluice::rpc::grpc_engine {

// `context` must outlive them, and they the server.
std::shared_ptr<::grpc::ServerCredentials> CredentialsOf(const net::TlsServerContext& context);

}  // namespace sluice::rpc::grpc_engine
