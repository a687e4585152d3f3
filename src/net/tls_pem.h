// PEM texts into an OpenSSL context.
//
// Thread-safe: no state of its own.
#pragma once

#include <openssl/ssl.h>

#include <string>

#include "base/result.h"

namespace sluice::net {

// The certificate that is shown to peers, and those between it and its authority.
Result<void> UseCertificateChain(SSL_CTX& context, const std::string& pem);

// REQUIRES: the certificate is in use already; the key must belong to it.
Result<void> UsePrivateKey(SSL_CTX& context, const std::string& pem);

// The authorities that peers' certificates are verified by.
Result<void> UseAuthorities(SSL_CTX& context, const std::string& pem);

// Why OpenSSL has failed last on this thread, in short.
std::string TlsErrorText();

}  // namespace sluice::net
