// gRPC server credentials from a net::TlsServerContext. New connections use the certificates of its
// last reload.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "net/tls_context.h"

namespace sluice::rpc::grpc_engine {

// `context` must outlive the credentials, which must outlive the server.
std::shared_ptr<::grpc::ServerCredentials> CredentialsOf(const net::TlsServerContext& context);

}  // namespace sluice::rpc::grpc_engine
