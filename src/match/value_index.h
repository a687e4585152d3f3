// For one attribute: which entries have a pattern that the attribute's value meets. One table per
// kind of pattern, each searched at a cost that hardly grows with what is in it: exact values by
// hash, prefixes by binary search, networks by one hash per prefix length in use, expressions all
// at once by one automaton.
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

  // REQUIRES: `atom` is of a kind other than kAnyOf and kNot; not frozen yet.
  void Add(const Matcher& atom, EntryId entry);

  // To be called once, after the last Add.
  Result<void> Freeze();

  // Appends the entries whose pattern `fact` meets, in any order, some perhaps twice.
  void Find(const Fact& fact, EntryIds& found) const;

 private:
  struct Prefix {
    std::string text;
    // The longest other prefix that begins this one, by position; -1: none.
    std::int32_t parent = -1;
    EntryIds entries;
  };
  // One of the entries under an exact value, and the position of the one added before; -1: none.
  // Most values have one entry: a vector for each would cost more than the value itself.
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

  // To the last of `links_`.
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> exact_;
  std::vector<Link> links_;
  std::map<std::string, EntryIds, std::less<>> added_prefixes_;  // until Freeze
  std::vector<Prefix> prefixes_;                                 // sorted, from Freeze on
  std::unordered_map<IpNetwork, EntryIds, NetworkHash> networks_;
  std::vector<int> v4_lengths_;  // prefix lengths in use
  std::vector<int> v6_lengths_;
  std::unique_ptr<Expressions> expressions_;
  EntryIds any_;  // the attribute need only be there
};

}  // namespace sluice
