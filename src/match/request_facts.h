// The attributes of one request as the rules of one domain see them: names turned into numbers,
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
#include "match/rule_index.h"

namespace sluice {

using AttributeId = std::uint32_t;

// The attributes that some rule of a domain asks about.
// Thread-safe once filled.
class AttributeTable {
 public:
  struct Entry {
    AttributeId id = 0;
    bool is_address = false;  // an IP address is brought to its canonical form
  };

  // Adds `name` unless it is there; `is_address` sticks.
  void Add(std::string_view name, bool is_address);

  // Null if no rule asks about `name`.
  const Entry* Find(std::string_view name) const;

 private:
  std::unordered_map<std::string, Entry, StringHash, std::equal_to<>> entries_;
};

// The value of one attribute.
struct Fact {
  AttributeId id = 0;
  std::string_view raw;
  std::string canonical;             // of `address`
  std::optional<IpAddress> address;  // absent: no address, or not asked for

  std::string_view text() const { return address ? std::string_view(canonical) : raw; }
};

// One thread at a time. Its memory is kept from request to request.
class RequestFacts {
 public:
  // Forgets the request before. `attributes` must outlive the use of the facts.
  void Fill(const AttributeTable& table, std::span<const Attribute> attributes);

  // Null if the request lacks the attribute.
  const Fact* Find(AttributeId id) const;

  std::span<const Fact> all() const { return {facts_.data(), count_}; }

 private:
  Fact& Slot(AttributeId id);

  std::vector<Fact> facts_;
  std::size_t count_ = 0;
};

}  // namespace sluice
