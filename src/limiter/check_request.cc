#include "limiter/check_request.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/format.h"
#include "match/rule.h"

namespace sluice {
namespace {

Error TooLong(std::string_view what, std::size_t bytes, std::size_t most) {
  return InvalidArgument(
      fmt::format("{}: has {} bytes; at most {} are allowed", what, bytes, most));
}

// `field`: the map that has the name.
Result<void> ValidateName(std::string_view field, std::string_view name) {
  if (name.empty()) {
    return InvalidArgument(fmt::format("{}: a name is empty; names have 1 to 255 bytes", field));
  }
  if (name.size() <= kMaxAttributeNameBytes) return {};
  return TooLong(fmt::format("{}: a name", field), name.size(), kMaxAttributeNameBytes);
}

Result<void> ValidateCount(std::string_view field, std::size_t count, std::size_t most) {
  if (count <= most) return {};
  return InvalidArgument(
      fmt::format("{}: there are {}; at most {} are allowed", field, count, most));
}

// Whether the API allows the number. The API's numbers are unsigned, so a number of at least 2^63
// has become negative here.
bool AreUnits(std::int64_t given) { return given >= 0 && given <= kMaxCost; }

Error TooManyUnits(std::string_view field, std::int64_t given) {
  return InvalidArgument(fmt::format("{}: is {}; at most 2^53 ({}) is allowed", field,
                                     static_cast<std::uint64_t>(given), kMaxCost));
}

Result<void> ValidateAttribute(const Attribute& attribute) {
  if (auto valid = ValidateName("attributes", attribute.name); !valid) return valid;
  if (attribute.value.size() > kMaxAttributeValueBytes) {
    return TooLong(fmt::format("attributes[\"{}\"]", attribute.name), attribute.value.size(),
                   kMaxAttributeValueBytes);
  }
  return {};
}

Result<void> ValidateAmount(const Amount& amount) {
  if (auto valid = ValidateName("amounts", amount.name); !valid) return valid;
  const bool is_cost = amount.name == CountedAmount::kCost;
  if (!is_cost && AreUnits(amount.value)) return {};
  const std::string field = fmt::format("amounts[\"{}\"]", amount.name);
  if (!is_cost) return TooManyUnits(field, amount.value);
  return InvalidArgument(field + ": is not allowed; use the field cost");
}

}  // namespace

Result<void> ValidateUnits(std::int64_t cost, std::span<const Amount> amounts) {
  if (!AreUnits(cost)) return TooManyUnits("cost", cost);
  if (auto few = ValidateCount("amounts", amounts.size(), kMaxAmounts); !few) return few;
  for (const Amount& amount : amounts) {
    if (auto valid = ValidateAmount(amount); !valid) return valid;
  }
  return {};
}

void CheckRequest::Clear() {
  CheckRequest empty;
  empty.attributes.swap(attributes);
  empty.attributes.clear();
  empty.amounts.swap(amounts);
  empty.amounts.clear();
  *this = std::move(empty);
}

bool CheckRequest::TakesNothing() const {
  return cost == 0 && std::ranges::all_of(amounts, [](const Amount& it) { return it.value == 0; });
}

std::int64_t CheckRequest::AmountOf(std::string_view name) const {
  if (name == CountedAmount::kCost) return cost;
  const auto given = std::ranges::find(amounts, name, &Amount::name);
  if (given != amounts.end()) return given->value;
  const bool is_request = cost > 0 && demand.consumes_or_peeks();
  return name == CountedAmount::kRequests && is_request ? 1 : 0;
}

std::optional<std::int64_t> CheckRequest::UnitsOf(const Counts& counts) const {
  if (counts.empty()) return cost;
  std::int64_t units = 0;
  for (const CountedAmount& counted : counts) {
    const std::int64_t amount = AmountOf(counted.name);
    if (amount > (kMaxCost - units) / counted.weight) return std::nullopt;
    units += amount * counted.weight;
  }
  return units;
}

Result<void> CheckRequest::Validate() const {
  if (domain.empty()) return InvalidArgument("domain: is empty; 1 to 255 bytes are allowed");
  if (domain.size() > kMaxDomainBytes) return TooLong("domain", domain.size(), kMaxDomainBytes);
  if (auto few = ValidateCount("attributes", attributes.size(), kMaxAttributes); !few) return few;
  for (const Attribute& attribute : attributes) {
    if (auto valid = ValidateAttribute(attribute); !valid) return valid;
  }
  if (auto valid = ValidateUnits(cost, amounts); !valid) return valid;
  const auto& max_wait = demand.max_wait;
  if (max_wait && (*max_wait < Duration::zero() || *max_wait > kMaxMaxWait)) {
    return InvalidArgument("max_wait: is not from 0 to 365 days");
  }
  if (lease_ttl && (*lease_ttl < kMinLeaseTtl || *lease_ttl > kMaxLeaseTtl)) {
    return InvalidArgument(
        fmt::format("lease_ttl: is {}; allowed are 100ms to {}; a rule may allow less",
                    FormatDuration(*lease_ttl), FormatDuration(kMaxLeaseTtl)));
  }
  return {};
}

}  // namespace sluice
