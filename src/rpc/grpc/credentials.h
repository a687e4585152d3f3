// Credentials of gRPC's server from certificates as text.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

namespace sluice::rpc::grpc_engine {

// PEM.
struct TlsTexts {
  std::string certificate_chain;
  std::string private_key;
  std::string client_ca;  // empty: client certificates are not asked for
  bool client_certificate_required = false;
};

std::shared_ptr<::grpc::ServerCredentials> TlsCredentials(const TlsTexts& texts);

}  // namespace sluice::rpc::grpc_engine
