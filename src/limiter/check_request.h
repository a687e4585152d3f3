// What a door asks of the limiter, and what it may ask.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "match/rule_index.h"
#include "store/store.h"

namespace sluice {

// A check may carry no more; beyond, it is refused with INVALID_ARGUMENT.
inline constexpr std::size_t kMaxDomainBytes = 255;
inline constexpr std::size_t kMaxAttributes = 64;
inline constexpr std::size_t kMaxAttributeNameBytes = 255;
inline constexpr std::size_t kMaxAttributeValueBytes = 8192;
inline constexpr Duration kMaxMaxWait = std::chrono::days(365);

struct CheckRequest {
  std::string_view domain;
  std::vector<Attribute> attributes;
  Demand demand;                            // a cost of 0 makes it a kPeek
  SteadyTime deadline = SteadyTime::max();  // the caller's; the store is given a little less
  // Decided after those that this thread started before and that are in order, too.
  bool in_order = false;
  // The store is asked even where this server remembers a denial.
  bool ask_store = false;

  // As new, memory kept.
  void Clear();

  // The error names the field, what was found and what is allowed. Doors check what only they can
  // see: that text is UTF-8 and that numbers fit.
  Result<void> Validate() const;
};

}  // namespace sluice
