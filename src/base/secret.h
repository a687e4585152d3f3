// Secrets: passwords, tokens. None is ever part of an error's message.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
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

// SHA-256. Where secrets are looked up by their digests, time tells nothing about them.
using SecretDigest = std::array<unsigned char, 32>;
SecretDigest DigestOfSecret(std::string_view secret);

// The token of a header `authorization: Bearer TOKEN`. The scheme is written in any case.
std::optional<std::string_view> BearerToken(std::optional<std::string_view> authorization);

// The secrets that a file holds, one a line; at least one. Each is of printable ASCII characters
// but spaces.
Result<std::vector<std::string>> ReadSecretsFile(const std::string& path);

// The same of a file with one.
Result<std::string> ReadSecretFile(const std::string& path);

// The same of a variable.
Result<void> ValidateSecret(std::string_view secret);

// A secret that may be changed while it is in use. Empty: there is none.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  std::string Get() const SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return value_;
  }
  // Whether it has changed.
  bool Set(std::string value) SLUICE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::exchange(value_, std::move(value)) != value_;
  }

 private:
  mutable Mutex mutex_;
  std::string value_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
