// An index of condition lists. Finds the lists that hold for a request. Each list is filed under
// its rarest condition, which the fewest lists share. The list's other conditions are tested only
// if this condition holds. So the cost does not grow with the number of other lists. Only lists
// that have no condition suitable for filing are tested for every request.
//
// Thread-safe: immutable after Build.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "match/matcher.h"
#include "match/request_attributes.h"
#include "match/rule.h"
#include "match/value_index.h"

namespace sluice {

class ConditionIndex {
 public:
  // Entry i of the index is the list `*lists[i]`. REQUIRES: `attributes` contains every attribute
  // that a list names.
  static Result<ConditionIndex> Build(std::span<const std::vector<Condition>* const> lists,
                                      const AttributeTable& attributes);

  // Sets `found` to the entries whose conditions all hold, in ascending order.
  void Find(const RequestAttributes& facts, EntryIds& found) const;

 private:
  // Conditions with equal patterns share one matcher.
  struct CompiledCondition {
    AttributeId attribute = 0;
    std::shared_ptr<const Matcher> matcher;
  };
  using CompiledConditions = std::vector<CompiledCondition>;

  // The steps of Build.
  static Result<std::vector<CompiledConditions>> CompileAll(
      std::span<const std::vector<Condition>* const> lists, const AttributeTable& attributes);
  static std::vector<std::size_t> ChooseAll(std::span<const CompiledConditions> all);
  void File(EntryId entry, std::size_t chosen);

  bool Holds(EntryId entry, const RequestAttributes& facts) const;

  std::vector<CompiledConditions> conditions_;  // by entry, without its filing condition
  std::unordered_map<AttributeId, ValueIndex> by_attribute_;
  EntryIds unfiled_;  // entries that have no condition suitable for filing
};

}  // namespace sluice
