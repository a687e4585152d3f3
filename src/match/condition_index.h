// Many lists of conditions, and which of the lists hold of a request, at a cost that does not grow
// with those that don't. Each list is filed under the one of its conditions that the fewest other
// lists share; the others are verified only when that one holds.
//
// Thread-safe: immutable after Build.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "match/matcher.h"
#include "match/request_facts.h"
#include "match/rule.h"
#include "match/value_index.h"

namespace sluice {

class ConditionIndex {
 public:
  // Entry i of the index is the list `*lists[i]`. REQUIRES: `attributes` has every attribute that
  // a list names.
  static Result<ConditionIndex> Build(std::span<const std::vector<Condition>* const> lists,
                                      const AttributeTable& attributes);

  // Sets `found` to the entries of which every condition holds, in ascending order.
  void Find(const RequestFacts& facts, EntryIds& found) const;

 private:
  struct Demand {
    AttributeId attribute = 0;
    Matcher matcher;
  };
  using Demands = std::vector<Demand>;
  class Selection;

  Result<Demands> Compile(const std::vector<Condition>& list, const AttributeTable& attributes);
  bool Holds(EntryId entry, const RequestFacts& facts) const;

  std::vector<Demands> demands_;  // by entry; the one it is filed under is taken out
  std::unordered_map<AttributeId, ValueIndex> by_attribute_;
  EntryIds unfiled_;  // entries without any condition to file them under
};

}  // namespace sluice
