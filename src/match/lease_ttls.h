// How long leases may last, by the name of the counter that holds them. For leases of which only
// the client says so.
//
// Thread-safe once it is filled.
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
  // `counter` is "<domain>/<rule>" as in keys; `tag` ends the key. Only concurrency limits are
  // noted.
  void Add(std::string_view counter, std::string_view tag, const Limit& limit);

  // The longest ttl of the limits that count under `key`; nothing if there are none.
  std::optional<Duration> Find(std::string_view key) const;

 private:
  std::unordered_map<std::string, Duration, StringHash, std::equal_to<>> ttls_;
};

}  // namespace sluice
