#include "tests/net/tls_client.h"

#include <openssl/err.h>

#include <array>

#include "tests/support/require.h"

namespace sluice::net {

TlsClient::TlsClient(BlockingSocket socket, const TlsClientOptions& options)
    : socket_(std::move(socket)), context_(SSL_CTX_new(TLS_client_method())) {
  SSL_CTX* const context = context_.get();
  if (options.version != 0) {
    SSL_CTX_set_min_proto_version(context, options.version);
    SSL_CTX_set_max_proto_version(context, options.version);
    if (options.version < TLS1_2_VERSION) SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0");
  }
  if (!options.ca.empty()) {
    test::Require(SSL_CTX_load_verify_file(context, options.ca.c_str()) == 1, options.ca);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  if (!options.certificate.chain.empty()) {
    test::Require(
        SSL_CTX_use_certificate_chain_file(context, options.certificate.chain.c_str()) == 1 &&
            SSL_CTX_use_PrivateKey_file(context, options.certificate.key.c_str(),
                                        SSL_FILETYPE_PEM) == 1,
        options.certificate.chain);
  }
  ssl_.reset(SSL_new(context));
  SSL_set_fd(ssl_.get(), socket_.fd());
  if (!options.alpn.empty()) {
    SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(options.alpn.data()),
                        static_cast<unsigned>(options.alpn.size()));
  }
}

void TlsClient::NoteError(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  const char* const reason = ERR_reason_error_string(ERR_get_error());
  error_ = kind == SSL_ERROR_ZERO_RETURN ? "end" : reason != nullptr ? reason : "cut";
  ERR_clear_error();
}

std::string TlsClient::Handshake() {
  ERR_clear_error();
  const int result = SSL_connect(ssl_.get());
  if (result == 1) return {};
  NoteError(result);
  return error_;
}

bool TlsClient::Send(std::string_view bytes) {
  ERR_clear_error();
  std::size_t sent = 0;
  return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent) == 1 && sent == bytes.size();
}

std::string TlsClient::Read(std::size_t size) {
  std::string all;
  std::array<char, 16 * 1024> buffer;
  while (all.size() < size) {
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), buffer.data(),
                             static_cast<int>(std::min(buffer.size(), size - all.size())));
    if (got <= 0) {
      NoteError(got);
      break;
    }
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return all;
}

bool TlsClient::ReadsEnd() { return Read(1).empty() && error_ == "end"; }

std::string TlsClient::alpn() const {
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &chosen, &size);
  return {reinterpret_cast<const char*>(chosen), size};
}

std::string TlsClient::server_serial() const {
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  BIGNUM* const number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* const text = BN_bn2hex(number);
  std::string serial = text;
  OPENSSL_free(text);
  BN_free(number);
  return serial;
}

}  // namespace sluice::net
