#include "base/secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

namespace sluice {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest DigestOf(std::string_view bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

}  // namespace

// Digests have one length, so not even the secret's shows.
bool IsSecret(std::string_view given, std::string_view secret) {
  const Digest a = DigestOf(given);
  const Digest b = DigestOf(secret);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sluice
