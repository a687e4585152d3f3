// For one attribute: finds the entries whose pattern matches a value. One table per kind of
// pattern, whose search cost hardly grows with its size: exact values by hash, prefixes by binary
// search, networks by one hash per prefix length in use, and all regular expressions by one
// automaton.
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
    // The position of the longest other prefix that is a prefix of this one; -1: none.
    std::int32_t parent = -1;
    EntryIds entries;
  };
  // An entry under an exact value, and the position of the value's previous entry; -1: none. Most
  // values have one entry, and a vector for each value would need more memory than the value.
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

  // By value: the index in `links_` of its last entry.
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
