// For one attribute: finds the entries whose pattern matches a value. Each kind of pattern has a
// table, and a table's search cost hardly grows with its size: exact values are found by hash,
// prefixes by binary search, networks by one hash per prefix length in use, and all regular
// expressions by one automaton.
//
// Thread-safe after Freeze.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "match/matcher.h"

namespace sluice {

using EntryId = std::uint32_t;
using EntryIds = std::vector<EntryId>;

class ValueIndex {
 public:
  ValueIndex();
  ~ValueIndex();
  ValueIndex(ValueIndex&&) noexcept;

  // REQUIRES: `atom` is neither kAnyOf nor kNot; Freeze has not been called.
  void Add(const Matcher& atom, EntryId entry);

  // Called once, after the last Add.
  Result<void> Freeze();

  // Appends the entries whose pattern matches `fact`, in any order, possibly with duplicates.
  void Find(const AttributeValue& fact, EntryIds& found) const;

 private:
  struct Prefix {
    std::string text;
    // The position of the longest other prefix with which `text` begins; -1: none.
    std::int32_t parent = -1;
    EntryIds entries;
  };
  // An entry with an exact value, and the position of the previous entry with the same value; -1
  // for the first entry. Most values have one entry, so a vector for each value would need more
  // memory than the value itself.
  struct Link {
    EntryId entry;
    std::int32_t before;
  };
  struct NetworkHash {
    std::size_t operator()(const IpNetwork& network) const { return network.Hash(); }
  };
  class Expressions;

  void LinkPrefixes();
  void FindPrefixes(std::string_view value, EntryIds& found) const;
  void FindNetworks(const IpAddress& address, EntryIds& found) const;

  // For each exact value, the index in `links_` of its last entry.
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> exact_;
  std::vector<Link> links_;
  std::map<std::string, EntryIds, std::less<>> added_prefixes_;  // until Freeze
  std::vector<Prefix> prefixes_;                                 // sorted, from Freeze on
  std::unordered_map<IpNetwork, EntryIds, NetworkHash> networks_;
  std::vector<int> v4_lengths_;  // prefix lengths in use
  std::vector<int> v6_lengths_;
  std::unique_ptr<Expressions> expressions_;
  EntryIds any_;  // entries that only need the attribute to be present
};

}  // namespace sluice
