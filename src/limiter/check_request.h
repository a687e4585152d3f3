// A request to the limiter, and its limits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "match/rule_index.h"
#include "store/store.h"

namespace sluice {

class RulesInForce;

// A check beyond these is refused with INVALID_ARGUMENT.
inline constexpr std::size_t kMaxDomainBytes = 255;
inline constexpr std::size_t kMaxAttributes = 64;
inline constexpr std::size_t kMaxAttributeNameBytes = 255;
inline constexpr std::size_t kMaxAttributeValueBytes = 8192;
inline constexpr Duration kMaxMaxWait = std::chrono::days(365);

struct CheckRequest {
  std::string_view domain;
  std::vector<Attribute> attributes;
  Demand demand;                            // a cost of 0 turns it into kPeek
  SteadyTime deadline = SteadyTime::max();  // the caller's; the store gets slightly less
  // Decided after every earlier in-order check from this thread.
  bool in_order = false;
  // Asks the store even if this server remembers a denial.
  bool ask_store = false;
  // Whether it may take a slot of a concurrency limit.
  bool may_lease = true;
  // With kCharge: the caller obeys the decision, as with kConsume. So if this server knows that a
  // limit is exceeded, the check may be denied without being counted.
  bool charge_decides = false;
  // The rules to decide by; null: those in force when the check starts.
  std::shared_ptr<const RulesInForce> rules;
  // Replace the limits of every matching rule that counts. Empty: the rules use their own.
  std::span<const IndexedLimit> limits;

  // Clears all fields and keeps the memory.
  void Clear();

  // The error names the field, the value found and the values allowed. Front ends check their own
  // encoding: that text is UTF-8 and that numbers fit.
  Result<void> Validate() const;
};

}  // namespace sluice
