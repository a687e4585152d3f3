#include "rpc/grpc/credentials.h"

namespace sluice::rpc::grpc_engine {

std::shared_ptr<::grpc::ServerCredentials> TlsCredentials(const TlsTexts& texts) {
  ::grpc::SslServerCredentialsOptions options(
      texts.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
      : texts.client_certificate_required
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = texts.client_ca;
  options.pem_key_cert_pairs.push_back({texts.private_key, texts.certificate_chain});
  return ::grpc::SslServerCredentials(options);
}

}  // namespace sluice::rpc::grpc_engine
