// Secrets: passwords and tokens. Error messages never contain a secret.
//
// Thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace sluice {

// Whether `given` equals `secret`, in constant time.
bool IsSecret(std::string_view given, std::string_view secret);

// SHA-256. The time of a lookup by digest reveals nothing about the secrets.
using SecretDigest = std::array<unsigned char, 32>;
SecretDigest DigestOfSecret(std::string_view secret);

// The token of a header `authorization: Bearer TOKEN`. The scheme is case-insensitive.
std::optional<std::string_view> BearerToken(std::optional<std::string_view> authorization);

// The secrets in a file, one per line. Fails if the file has no secret, or if a secret has a space
// or a character that is not printable ASCII.
Result<std::vector<std::string>> ReadSecretsFile(const std::string& path);

// The same for a file with exactly one secret.
Result<std::string> ReadSecretFile(const std::string& path);

// Tests a secret as ReadSecretsFile does, for secrets that do not come from a file.
Result<void> ValidateSecret(std::string_view secret);

// A secret that may change while it is in use. Empty until it is set.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  std::string Get() const SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return value_;
  }
  // Returns whether the value has changed.
  bool Set(std::string value) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::exchange(value_, std::move(value)) != value_;
  }

 private:
  mutable Mutex mutex_;
  std::string value_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
