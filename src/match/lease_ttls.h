// The maximum ttl of leases, by the counter that holds them. Used for leases whose ttl only the
// client states.
//
// Thread-safe after it is filled.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/hash.h"
#include "core/limit.h"

namespace sluice {

class LeaseTtls {
 public:
  // `counter` is "<domain>/<rule>" as in keys; `tag` ends the key. Ignores limits other than
  // concurrency limits.
  void Add(std::string_view counter, std::string_view tag, const Limit& limit);

  // The longest ttl of the limits that count under `key`; empty if there are none.
  std::optional<Duration> Find(std::string_view key) const;

 private:
  std::unordered_map<std::string, Duration, StringHash, std::equal_to<>> ttls_;
};

}  // namespace sluice
