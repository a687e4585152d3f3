#include "net/tls_pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <memory>

#include <fmt/format.h>

namespace sluice::net {
namespace {

template <auto kFree>
struct FreeBy {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeBy<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;

BioPtr Reading(const std::string& pem) {
  ERR_clear_error();
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Without this, OpenSSL asks for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

// The next certificate of `pem`, or null at the end or on an error.
CertificatePtr NextCertificate(BIO& pem) {
  return CertificatePtr(PEM_read_bio_X509(&pem, nullptr, NoPassphrase, nullptr));
}

// Whether the last read failed because there are no more certificates.
bool AtEnd() {
  const unsigned long error = ERR_peek_last_error();
  const bool end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (end) ERR_clear_error();
  return end;
}

Error Broken(std::string_view what) {
  return InvalidArgument(fmt::format("{}: {}", what, TlsErrorText()));
}

}  // namespace

std::string TlsErrorText() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? fmt::format("error {:x}", error) : reason;
}

Result<void> UseCertificateChain(SSL_CTX& context, const std::string& pem) {
  const BioPtr bio = Reading(pem);
  const CertificatePtr own = NextCertificate(*bio);
  if (!own) return Broken("no certificate in PEM format");
  if (SSL_CTX_use_certificate(&context, own.get()) != 1) return Broken("certificate refused");
  while (CertificatePtr next = NextCertificate(*bio)) {
    if (SSL_CTX_add1_chain_cert(&context, next.get()) != 1) return Broken("certificate refused");
  }
  if (!AtEnd()) return Broken("a certificate of the chain is broken");
  return {};
}

Result<void> UsePrivateKey(SSL_CTX& context, const std::string& pem) {
  const BioPtr bio = Reading(pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (!key) return Broken("no private key in PEM format without passphrase");
  if (SSL_CTX_use_PrivateKey(&context, key.get()) != 1 ||
      SSL_CTX_check_private_key(&context) != 1) {
    return Broken("the private key does not match the certificate");
  }
  return {};
}

Result<void> UseAuthorities(SSL_CTX& context, const std::string& pem) {
  const BioPtr bio = Reading(pem);
  int count = 0;
  while (const CertificatePtr authority = NextCertificate(*bio)) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(&context, authority.get()) != 1) {
      return Broken("certificate refused");
    }
    ++count;
  }
  if (count == 0 || !AtEnd()) return Broken("no certificates in PEM format");
  return {};
}

}  // namespace sluice::net
