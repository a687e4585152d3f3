#include "base/secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include <fmt/format.h>

#include "base/text.h"

namespace sluice {

static_assert(sizeof(SecretDigest) == SHA256_DIGEST_LENGTH);

SecretDigest DigestOfSecret(std::string_view secret) {
  SecretDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), digest.data());
  return digest;
}

// Digests have a fixed length, so the time does not reveal the secret's length either.
bool IsSecret(std::string_view given, std::string_view secret) {
  const SecretDigest a = DigestOfSecret(given);
  const SecretDigest b = DigestOfSecret(secret);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<std::string_view> BearerToken(std::optional<std::string_view> authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!authorization || authorization->size() <= kScheme.size()) return std::nullopt;
  if (Lowercase(authorization->substr(0, kScheme.size())) != kScheme) return std::nullopt;
  return authorization->substr(kScheme.size());
}

Result<void> ValidateSecret(std::string_view secret) {
  const auto is_allowed = [](char c) { return c > ' ' && c < 0x7f; };
  if (!secret.empty() && std::all_of(secret.begin(), secret.end(), is_allowed)) return {};
  return InvalidArgument(
      "found no secret, or an invalid one; allowed are printable ASCII characters except spaces");
}

Result<std::vector<std::string>> ReadSecretsFile(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> secrets;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
      line.pop_back();
    }
    if (!line.empty()) secrets.push_back(std::move(line));
  }
  if (file.bad() || !file.eof()) return InvalidArgument(fmt::format("{} cannot be read", path));
  if (secrets.empty()) secrets.emplace_back();
  for (const std::string& secret : secrets) {
    if (const auto valid = ValidateSecret(secret); !valid) {
      return InvalidArgument(fmt::format("{}: {}", path, valid.error().message));
    }
  }
  return secrets;
}

Result<std::string> ReadSecretFile(const std::string& path) {
  auto secrets = ReadSecretsFile(path);
  if (!secrets) return secrets.error();
  if (secrets->size() == 1) return std::move(secrets->front());
  return InvalidArgument(
      fmt::format("{}: found {} secrets; allowed is one", path, secrets->size()));
}

}  // namespace sluice
