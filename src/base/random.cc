#include "base/random.h"

#include <openssl/rand.h>

#include <cstdlib>

namespace sluice {

std::array<std::uint8_t, 16> RandomBytes() {
  std::array<std::uint8_t, 16> bytes;
  // If the system has no entropy, aborts: secrets would be predictable.
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::abort();
  return bytes;
}

}  // namespace sluice
