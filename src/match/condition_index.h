// Many lists of conditions, and which of the lists hold of a request, at a cost that does not grow
// with those that don't. Each list is filed under the one of its conditions that the fewest other
// lists share; the others are verified only when that one holds.
//
// Thread-safe: immutable after Build.
#pragma once

#include <memory>
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
  // Lists that say the same of an attribute, as most do of the method, share one matcher.
  struct Demand {
    AttributeId attribute = 0;
    std::shared_ptr<const Matcher> matcher;
  };
  using Demands = std::vector<Demand>;
  class Compiler;
  class Selection;

  // The steps of Build.
  static Result<std::vector<Demands>> CompileAll(
      std::span<const std::vector<Condition>* const> lists, const AttributeTable& attributes);
  static std::vector<std::size_t> ChooseAll(std::span<Demands> all);
  void File(EntryId entry, std::size_t chosen);

  bool Holds(EntryId entry, const RequestFacts& facts) const;

  std::vector<Demands> demands_;  // by entry; the one it is filed under is taken out
  std::unordered_map<AttributeId, ValueIndex> by_attribute_;
  EntryIds unfiled_;  // entries without any condition to file them under
};

}  // namespace sluice
