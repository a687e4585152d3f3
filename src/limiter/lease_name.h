// The name a client holds a lease by, `Lease.id` of the API. It says all that any server needs to
// renew or release the lease, so that servers keep none in mind. Only who was told the name can
// make one that matters: it holds 128 random bits. The slot in the counters is named by a digest of
// these and the ttl, so a name with another ttl is the name of no slot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/lease.h"

namespace sluice {

struct LeaseName {
  static constexpr std::size_t kMaxBytes = 2048;

  std::array<std::uint8_t, 16> bits{};  // random
  Duration ttl{};
  // Taken in the granting server's own memory, while the store failed.
  bool local = false;
  // False for names of the first version, which servers before this one gave: `bits` name the slot,
  // and `ttl` is the client's word.
  bool binds_ttl = true;
  std::vector<std::string_view> keys;  // of the counters; at least one, distinct

  // As the store knows it.
  Lease lease() const;

  // Nothing if it is longer than kMaxBytes.
  std::optional<std::string> ToText() const;

  // The keys are views into `text`. The error is for the client; keys are those of concurrency
  // counters.
  static Result<LeaseName> Parse(std::string_view text);
};

}  // namespace sluice
