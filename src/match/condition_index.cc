#include "match/condition_index.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice {
namespace {

using Kind = Pattern::Kind;

// Calls `visit` for each alternative of `matcher`. If `matcher` holds, at least one alternative
// holds. Returns false if `matcher` can hold for an absent attribute, and thus cannot be used for
// filing.
template <typename Visit>
bool VisitAtoms(const Matcher& matcher, const Visit& visit) {
  if (matcher.kind == Kind::kNot) return false;
  if (matcher.kind != Kind::kAnyOf) {
    visit(matcher);
    return true;
  }
  return std::all_of(matcher.of.begin(), matcher.of.end(),
                     [&](const Matcher& part) { return VisitAtoms(part, visit); });
}

// The entries with one pattern on one attribute. All regular expressions on an attribute run
// together, so they share one bucket. All presence tests of an attribute also share one bucket.
struct Bucket {
  AttributeId attribute;
  Kind kind;
  std::string_view text;

  bool operator==(const Bucket&) const = default;
};

struct BucketHash {
  std::size_t operator()(const Bucket& bucket) const {
    const auto kind = static_cast<std::size_t>(bucket.kind);
    return CombineHash(Hash(bucket.text), bucket.attribute * 16 + kind);
  }
};

Bucket BucketOf(AttributeId attribute, const Matcher& atom) {
  const bool shared = atom.kind == Kind::kRegex || atom.kind == Kind::kExists;
  return {attribute, atom.kind, shared ? std::string_view() : std::string_view(atom.text)};
}

// A pattern to compile.
struct MatcherKey {
  const Pattern* pattern;
  bool is_address;

  bool operator==(const MatcherKey& other) const {
    return is_address == other.is_address && *pattern == *other.pattern;
  }
};

struct MatcherKeyHash {
  static std::size_t Of(const Pattern& pattern) {
    auto hash = CombineHash(Hash(pattern.text), static_cast<std::size_t>(pattern.kind));
    for (const Pattern& part : pattern.of) hash = CombineHash(hash, Of(part));
    return hash;
  }
  std::size_t operator()(const MatcherKey& key) const { return Of(*key.pattern); }
};

// The number of entries in each bucket.
using Population = std::unordered_map<Bucket, std::uint32_t, BucketHash>;

// How well a condition is suited for filing; lower is better. Compares the size of the fullest
// bucket, then the search cost, then the negated length of the shortest text or network prefix,
// because a longer prefix matches less often.
using Score = std::tuple<std::uint32_t, Kind, std::int64_t>;
constexpr Score kWorst{std::numeric_limits<std::uint32_t>::max(), Kind::kExact, 0};

Score ScoreOf(AttributeId attribute, const Matcher& matcher, const Population& population) {
  std::uint32_t fullest = 0;
  Kind costliest = Kind::kExact;
  std::int64_t length = std::numeric_limits<std::int64_t>::max();
  const bool fileable = VisitAtoms(matcher, [&](const Matcher& atom) {
    fullest = std::max(fullest, population.at(BucketOf(attribute, atom)));
    costliest = std::max(costliest, atom.kind);
    const auto specific = atom.kind == Kind::kCidr ? std::int64_t{atom.network.prefix}
                                                   : static_cast<std::int64_t>(atom.text.size());
    length = std::min(length, specific);
  });
  return fileable ? Score{fullest, costliest, -length} : kWorst;
}

}  // namespace

Result<ConditionIndex> ConditionIndex::Build(std::span<const std::vector<Condition>* const> lists,
                                             const AttributeTable& attributes) {
  ConditionIndex index;
  auto conditions = CompileAll(lists, attributes);
  if (!conditions) return conditions.error();
  index.conditions_ = std::move(*conditions);
  // File may free the text of a condition. The buckets of ChooseAll refer to these texts, so all
  // conditions are chosen before the first call of File.
  const auto chosen = ChooseAll(index.conditions_);
  for (EntryId entry = 0; entry < index.conditions_.size(); ++entry) {
    index.File(entry, chosen[entry]);
  }
  for (auto& [attribute, values] : index.by_attribute_) {
    if (auto frozen = values.Freeze(); !frozen) return frozen.error();
  }
  return index;
}

// Equal patterns share one matcher.
Result<std::vector<ConditionIndex::CompiledConditions>> ConditionIndex::CompileAll(
    std::span<const std::vector<Condition>* const> lists, const AttributeTable& attributes) {
  std::unordered_map<MatcherKey, std::shared_ptr<const Matcher>, MatcherKeyHash> matchers;
  std::vector<CompiledConditions> all;
  all.reserve(lists.size());
  for (const auto* list : lists) {
    CompiledConditions& conditions = all.emplace_back();
    conditions.reserve(list->size());
    for (const Condition& condition : *list) {
      const auto* attribute = attributes.Find(condition.attribute);
      auto& matcher = matchers[{&condition.pattern, attribute->is_address}];
      if (matcher == nullptr) {
        auto compiled = Matcher::Compile(condition.pattern, attribute->is_address);
        if (!compiled) return compiled.error();
        matcher = std::make_shared<const Matcher>(std::move(*compiled));
      }
      conditions.push_back({attribute->id, matcher});
    }
  }
  return all;
}

// For each entry, the index of the condition to file it under, or the number of its conditions if
// none is suitable.
std::vector<std::size_t> ConditionIndex::ChooseAll(std::span<const CompiledConditions> all) {
  Population population;
  for (const CompiledConditions& conditions : all) {
    for (const CompiledCondition& condition : conditions) {
      VisitAtoms(*condition.matcher,
                 [&](const Matcher& atom) { ++population[BucketOf(condition.attribute, atom)]; });
    }
  }
  const auto score_of = [&](const CompiledCondition& condition) {
    return ScoreOf(condition.attribute, *condition.matcher, population);
  };
  std::vector<std::size_t> chosen;
  chosen.reserve(all.size());
  for (const CompiledConditions& conditions : all) {
    auto best = std::ranges::min_element(conditions, {}, score_of);
    if (best != conditions.end() && score_of(*best) == kWorst) best = conditions.end();
    chosen.push_back(static_cast<std::size_t>(best - conditions.begin()));
  }
  return chosen;
}

void ConditionIndex::File(EntryId entry, std::size_t chosen) {
  CompiledConditions& conditions = conditions_[entry];
  if (chosen == conditions.size()) return unfiled_.push_back(entry);
  const auto filed = conditions.begin() + static_cast<std::ptrdiff_t>(chosen);
  ValueIndex& values = by_attribute_[filed->attribute];
  VisitAtoms(*filed->matcher, [&](const Matcher& atom) { values.Add(atom, entry); });
  conditions.erase(filed);
  conditions.shrink_to_fit();
}

void ConditionIndex::Find(const RequestAttributes& facts, EntryIds& found) const {
  found.assign(unfiled_.begin(), unfiled_.end());
  for (const AttributeValue& fact : facts.all()) {
    const auto values = by_attribute_.find(fact.id);
    if (values != by_attribute_.end()) values->second.Find(fact, found);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase_if(found, [&](EntryId entry) { return !Holds(entry, facts); });
}

bool ConditionIndex::Holds(EntryId entry, const RequestAttributes& facts) const {
  const CompiledConditions& conditions = conditions_[entry];
  return std::all_of(conditions.begin(), conditions.end(), [&](const CompiledCondition& condition) {
    return condition.matcher->Matches(facts.Find(condition.attribute));
  });
}

}  // namespace sluice
