// Loads PEM texts into an OpenSSL context.
//
// Thread-safe for different contexts.
#pragma once

#include <openssl/ssl.h>

#include <string>

#include "base/result.h"

namespace sluice::net {

// Sets this end's certificate and the intermediate certificates up to its authority.
Result<void> UseCertificateChain(SSL_CTX& context, const std::string& pem);

// Sets the private key. Fails if it does not match the certificate. REQUIRES: UseCertificateChain
// has succeeded.
Result<void> UsePrivateKey(SSL_CTX& context, const std::string& pem);

// Adds the authorities that peers' certificates are verified against.
Result<void> UseAuthorities(SSL_CTX& context, const std::string& pem);

// A short text for OpenSSL's first queued error on this thread. Clears the queue.
std::string TlsErrorText();

}  // namespace sluice::net
