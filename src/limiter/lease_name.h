// The name a client holds a lease by, `Lease.id` of the API. It says all that any server needs to
// renew or release the lease, so that servers keep none in mind. Only who was told the name can
// make one that matters: it holds 128 random bits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/lease.h"

namespace sluice {

struct LeaseName {
  static constexpr std::size_t kMaxBytes = 2048;

  Lease lease;
  // Taken in the granting server's own memory, while the store failed.
  bool local = false;
  std::vector<std::string_view> keys;  // of the counters; at least one, distinct

  // Nothing if it is longer than kMaxBytes.
  std::optional<std::string> ToText() const;

  // The keys are views into `text`. The error is for the client; keys are those of concurrency
  // counters.
  static Result<LeaseName> Parse(std::string_view text);
};

}  // namespace sluice
