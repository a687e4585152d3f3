// A request to the limiter, and the bounds on its fields.
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

class ActiveRules;

// If a check exceeds one of these bounds, it is refused with INVALID_ARGUMENT.
inline constexpr std::size_t kMaxDomainBytes = 255;
inline constexpr std::size_t kMaxAttributes = 64;
inline constexpr std::size_t kMaxAttributeNameBytes = 255;
inline constexpr std::size_t kMaxAttributeValueBytes = 8192;
inline constexpr std::size_t kMaxAmounts = 16;
inline constexpr Duration kMaxMaxWait = std::chrono::days(365);

// What limits may count besides the cost.
struct Amount {
  std::string_view name;   // 1 to kMaxAttributeNameBytes; not CountedAmount::kCost
  std::int64_t value = 0;  // 0 to kMaxCost
};

// Checks the bounds on a cost and on amounts. Part of CheckRequest::Validate.
Result<void> ValidateUnits(std::int64_t cost, std::span<const Amount> amounts);

struct CheckRequest {
  std::string_view domain;
  std::vector<Attribute> attributes;
  std::int64_t cost = 1;        // 0 to kMaxCost
  std::vector<Amount> amounts;  // names are distinct; amounts not listed are 0, but see AmountOf
  Demand demand;                // if TakesNothing(), the mode counts as kPeek
  // If set, a kConsume takes the units under a lease of this length. From kMinLeaseTtl to the
  // rules' max_lease_ttl.
  std::optional<Duration> lease_ttl;
  SteadyTime deadline = SteadyTime::max();  // the caller's; the store gets an earlier one
  // Decided after every earlier in-order check from this thread that shares a counter with it.
  bool in_order = false;
  // Asks the store even if this server remembers a denial or holds a grant.
  bool ask_store = false;
  // Whether the caller may take leases.
  bool may_lease = true;
  // With kCharge: the caller obeys the decision, as with kConsume. So if this server remembers that
  // a limit is exceeded, it may deny the check without charging it.
  bool charge_decides = false;
  // The rules to decide by; null: those in force when the check starts.
  std::shared_ptr<const ActiveRules> rules;
  // If not empty, every matching rule that counts uses these limits instead of its own.
  std::span<const IndexedLimit> limits;

  // Clears all fields and keeps the memory.
  void Clear();

  // Whether the cost and all amounts are 0.
  bool TakesNothing() const;

  // The value of the amount `name`; for kCost, the cost. If the request does not list the amount,
  // its value is 0, with one exception: if the mode is kConsume or kPeek and the cost is above 0,
  // the value of kRequests is 1.
  std::int64_t AmountOf(std::string_view name) const;

  // The units of this request for a limit with `counts`. Empty if there are more than kMaxCost.
  std::optional<std::int64_t> UnitsOf(const Counts& counts) const;

  // Checks the bounds on the fields. The error names the field and what is allowed. Front ends
  // check what depends on their encoding: that text is UTF-8 and that numbers fit.
  Result<void> Validate() const;
};

}  // namespace sluice
