#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <ctime>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "net/tls_session.h"

namespace sluice::net {
namespace {

using ContextPtr = std::shared_ptr<SSL_CTX>;

// The cipher suites for TLS 1.2, all of which HTTP/2 allows, and the suites for TLS 1.3.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr const char* kSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

Result<TlsFiles> ReadTexts(const TlsFiles& paths) {
  TlsFiles texts;
  for (const auto member : {&TlsFiles::certificate_chain, &TlsFiles::private_key, &TlsFiles::ca}) {
    if ((paths.*member).empty()) continue;
    auto text = ReadFile(paths.*member);
    if (!text) return text.error();
    texts.*member = std::move(text).value();
  }
  return texts;
}

ContextPtr NewContext(const SSL_METHOD* method) {
  ContextPtr context(SSL_CTX_new(method), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context.get(), kCiphers);
  SSL_CTX_set_ciphersuites(context.get(), kSuites);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  return context;
}

Error Broken(const std::string& path, std::string_view what) {
  return InvalidArgument(fmt::format("{}: {}: {}", path, what, TlsErrorText()));
}

Result<void> UseCertificate(SSL_CTX& context, const TlsFiles& paths) {
  const std::string& key = paths.private_key;
  if (SSL_CTX_use_certificate_chain_file(&context, paths.certificate_chain.c_str()) != 1) {
    return Broken(paths.certificate_chain, "no certificate in PEM format");
  }
  const bool used = SSL_CTX_use_PrivateKey_file(&context, key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (!used && ERR_GET_LIB(ERR_peek_last_error()) != ERR_LIB_X509) {
    return Broken(key, "no private key in PEM format, or the key has a passphrase");
  }
  if (!used || SSL_CTX_check_private_key(&context) != 1) {
    return Broken(key, "the private key does not match the certificate");
  }
  return {};
}

Result<void> UseFiles(SSL_CTX& context, const TlsFiles& paths) {
  ERR_clear_error();
  // Without this, OpenSSL asks for a passphrase on the terminal.
  SSL_CTX_set_default_passwd_cb(&context, [](char*, int, int, void*) { return 0; });
  if (!paths.certificate_chain.empty()) {
    if (auto used = UseCertificate(context, paths); !used) return used;
  }
  if (paths.ca.empty()) return {};
  if (SSL_CTX_load_verify_file(&context, paths.ca.c_str()) != 1) {
    return Broken(paths.ca, "no certificates in PEM format");
  }
  SSL_CTX_set_client_CA_list(&context, SSL_load_client_CA_file(paths.ca.c_str()));
  return {};
}

// "valid until" or "EXPIRED", with the certificate's expiry in OpenSSL's date format; or "not set".
std::string ValidUntil(const SSL_CTX& context) {
  const X509* const own = SSL_CTX_get0_certificate(&context);
  if (own == nullptr) return "not set";
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), BIO_free);
  ASN1_TIME_print(text.get(), X509_get0_notAfter(own));
  char* begin = nullptr;
  const long size = BIO_get_mem_data(text.get(), &begin);
  const bool expired = X509_cmp_current_time(X509_get0_notAfter(own)) < 0;
  return fmt::format("{} {}", expired ? "EXPIRED" : "valid until",
                     std::string_view(begin, static_cast<std::size_t>(size)));
}

}  // namespace

Result<void> TlsContext::ReadFirst() {
  auto texts = ReadTexts(paths_);
  if (!texts) return texts.error();
  auto setup = build_();
  if (!setup) return setup.error();
  const MutexLock lock(reload_mutex_);
  tried_ = std::move(*texts);
  Use(std::move(*setup));
  return {};
}

bool TlsContext::Reload() {
  const MutexLock lock(reload_mutex_);
  auto read = ReadTexts(paths_);
  if (!read) return Refuse(read.error().message), false;
  if (*read == tried_) return false;
  tried_ = std::move(*read);
  auto setup = build_();  // if the files have changed again, the next Reload reads them
  if (!setup) return Refuse(setup.error().message), false;
  refused_.clear();
  spdlog::info("TLS: the files of {} have changed; certificate: {}",
               paths_.certificate_chain.empty() ? paths_.ca : paths_.certificate_chain,
               ValidUntil(*setup->context));
  Use(std::move(*setup));
  return true;
}

void TlsContext::Refuse(const std::string& cause) {
  if (cause == refused_) return;
  refused_ = cause;
  spdlog::warn("TLS: the changed files cannot be used: {}; the old ones stay in use", cause);
}

void TlsContext::Use(TlsSetup setup) {
  auto shared = std::make_shared<const TlsSetup>(std::move(setup));
  const MutexLock lock(mutex_);
  setup_ = std::move(shared);
}

double TlsContext::Expiry() const {
  const auto used = setup();
  const X509* const own = SSL_CTX_get0_certificate(used->context.get());
  std::tm time{};
  if (own == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(own), &time) != 1) {
    return std::numeric_limits<double>::infinity();
  }
  return static_cast<double>(timegm(&time));
}

std::shared_ptr<const TlsSetup> TlsContext::setup() const {
  const MutexLock lock(mutex_);
  return setup_;
}

Result<std::unique_ptr<TlsServerContext>> TlsServerContext::Load(Options options) {
  const TlsFiles paths = options.paths;
  if (paths.certificate_chain.empty() || paths.private_key.empty()) {
    return InvalidArgument("TLS needs a certificate and a private key");
  }
  const auto build = [options = std::move(options)]() -> Result<TlsSetup> {
    ContextPtr context = NewContext(TLS_server_method());
    TlsSession::SetUpServer(*context);
    const auto used = UseFiles(*context, options.paths);
    if (!used) return used.error();
    if (!options.paths.ca.empty()) {
      SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return TlsSetup{.context = std::move(context), .handshake_time = options.handshake_time};
  };
  std::unique_ptr<TlsServerContext> made(new TlsServerContext(paths, build));
  if (auto loaded = made->ReadFirst(); !loaded) return loaded.error();
  return made;
}

Result<std::unique_ptr<TlsClientContext>> TlsClientContext::Load(TlsFiles paths,
                                                                 std::string_view alpn) {
  if (paths.certificate_chain.empty() != paths.private_key.empty()) {
    return InvalidArgument("TLS needs both a certificate and a private key, or neither");
  }
  const auto build = [paths, alpn]() -> Result<TlsSetup> {
    ContextPtr context = NewContext(TLS_client_method());
    const auto used = UseFiles(*context, paths);
    if (!used) return used.error();
    if (paths.ca.empty()) SSL_CTX_set_default_verify_paths(context.get());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    if (!alpn.empty()) {
      SSL_CTX_set_alpn_protos(context.get(), reinterpret_cast<const unsigned char*>(alpn.data()),
                              static_cast<unsigned int>(alpn.size()));
    }
    return TlsSetup{.context = std::move(context)};
  };
  std::unique_ptr<TlsClientContext> made(new TlsClientContext(std::move(paths), build));
  if (auto loaded = made->ReadFirst(); !loaded) return loaded.error();
  return made;
}

}  // namespace sluice::net
