#include "rpc/grpc/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

namespace sluice::rpc::grpc_engine {
namespace {

// gRPC fetches the certificates before each handshake.
class ReloadedCredentials final : public ::grpc::ServerCredentials {
 public:
  explicit ReloadedCredentials(const net::TlsServerContext& context) : context_(context) {
    // If authorities are set, callers need a certificate signed by one of them.
    const auto request = context.texts().ca.empty()
                             ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, Fetch, this));
  }
  ~ReloadedCredentials() override { grpc_server_credentials_release(credentials_); }

  // Not supported: callers are identified by their certificates.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<::grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<ReloadedCredentials*>(self)->FetchIfNew(config);
  }

  grpc_ssl_certificate_config_reload_status FetchIfNew(grpc_ssl_server_certificate_config** config)
      SLUICE_EXCLUDES(mutex_) {
    net::TlsFiles texts = context_.texts();
    const MutexLock lock(mutex_);
    if (texts == fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{.private_key = texts.private_key.c_str(),
                                          .cert_chain = texts.certificate_chain.c_str()};
    // gRPC 1.51 requires authorities even if it does not request client certificates.
    const std::string& ca = texts.ca.empty() ? texts.certificate_chain : texts.ca;
    *config = grpc_ssl_server_certificate_config_create(ca.c_str(), &pair, 1);
    fetched_ = std::move(texts);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const net::TlsServerContext& context_;
  grpc_server_credentials* credentials_;

  Mutex mutex_;
  net::TlsFiles fetched_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<::grpc::ServerCredentials> CredentialsOf(const net::TlsServerContext& context) {
  return std::make_shared<ReloadedCredentials>(context);
}

}  // namespace sluice::rpc::grpc_engine
