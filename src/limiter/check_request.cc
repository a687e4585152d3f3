#include "limiter/check_request.h"

#include <fmt/format.h>

namespace sluice {
namespace {

Error TooLong(std::string_view what, std::size_t bytes, std::size_t most) {
  return InvalidArgument(
      fmt::format("{}: has {} bytes; at most {} are allowed", what, bytes, most));
}

Result<void> ValidateAttribute(const Attribute& attribute) {
  if (attribute.name.empty()) {
    return InvalidArgument("attributes: a name is empty; names have 1 to 255 bytes");
  }
  if (attribute.name.size() > kMaxAttributeNameBytes) {
    return TooLong("attributes: a name", attribute.name.size(), kMaxAttributeNameBytes);
  }
  if (attribute.value.size() > kMaxAttributeValueBytes) {
    return TooLong(fmt::format("attributes[\"{}\"]", attribute.name), attribute.value.size(),
                   kMaxAttributeValueBytes);
  }
  return {};
}

}  // namespace

void CheckRequest::Clear() {
  domain = {};
  attributes.clear();
  demand = {};
  deadline = SteadyTime::max();
  in_order = false;
  ask_store = false;
  may_lease = true;
  charge_decides = false;
  rules = nullptr;
  limits = {};
}

Result<void> CheckRequest::Validate() const {
  if (domain.empty()) return InvalidArgument("domain: is empty; it has 1 to 255 bytes");
  if (domain.size() > kMaxDomainBytes) return TooLong("domain", domain.size(), kMaxDomainBytes);
  if (attributes.size() > kMaxAttributes) {
    return InvalidArgument(fmt::format("attributes: there are {}; at most {} are allowed",
                                       attributes.size(), kMaxAttributes));
  }
  for (const Attribute& attribute : attributes) {
    if (auto valid = ValidateAttribute(attribute); !valid) return valid;
  }
  // The cost arrived as an unsigned number, so 2^63 or more has become negative.
  const auto cost = static_cast<std::uint64_t>(demand.cost);
  if (cost > static_cast<std::uint64_t>(kMaxCost)) {
    return InvalidArgument(
        fmt::format("cost: is {}; at most 2^53 ({}) is allowed", cost, kMaxCost));
  }
  const auto& max_wait = demand.max_wait;
  if (max_wait && (*max_wait < Duration::zero() || *max_wait > kMaxMaxWait)) {
    return InvalidArgument("max_wait: is not from 0 to 365 days");
  }
  return {};
}

}  // namespace sluice
