// The attributes of one request as the rules of one domain use them: names converted to ids,
// addresses parsed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/ip_address.h"
#include "match/rule.h"

namespace sluice {

using AttributeId = std::uint32_t;

// The attributes that the rules of a domain use.
// Thread-safe once filled.
class AttributeTable {
 public:
  struct Entry {
    AttributeId id = 0;
    bool is_address = false;  // values that are IP addresses are converted to canonical form
  };

  // Adds `name` if it is not present. Once set, `is_address` stays true.
  void Add(std::string_view name, bool is_address);

  // Null if no rule uses `name`.
  const Entry* Find(std::string_view name) const;

 private:
  std::unordered_map<std::string, Entry, StringHash, std::equal_to<>> entries_;
};

// The value of one attribute.
struct AttributeValue {
  AttributeId id = 0;
  std::string_view raw;
  std::string canonical;             // of `address`
  std::optional<IpAddress> address;  // absent: not an address, or not needed

  std::string_view text() const { return address ? std::string_view(canonical) : raw; }
};

// One thread at a time. Reuses its memory for each request.
class RequestAttributes {
 public:
  // Replaces the previous request. The texts in `attributes` must stay valid while this object is
  // used.
  void Fill(const AttributeTable& table, std::span<const Attribute> attributes);

  // Null if the request lacks the attribute.
  const AttributeValue* Find(AttributeId id) const;

  std::span<const AttributeValue> all() const { return {facts_.data(), count_}; }

 private:
  AttributeValue& Slot(AttributeId id);

  std::vector<AttributeValue> facts_;
  std::size_t count_ = 0;
};

}  // namespace sluice
