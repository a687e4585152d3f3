#include "match/rule_difference.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::size_t kNamesShown = 5;

// Names of rules and domains.
struct Difference {
  std::vector<std::string> added, removed, changed;
};

// The fields that define what a rule does: all except its name and its location. If Rule gets a new
// field, the binding does not compile, so no field is forgotten.
auto WhatItDoes(const Rule& rule) {
  const auto& [name, counter, location, match, per, limits, overrides, shadow, missing,
               on_store_failure, deny_cache, max_lease_ttl] = rule;
  return std::tie(counter, match, per, limits, overrides, shadow, missing, on_store_failure,
                  deny_cache, max_lease_ttl);
}

bool SameBehavior(const IndexedRule& a, const IndexedRule& b) {
  return WhatItDoes(a.rule) == WhatItDoes(b.rule);
}

bool SameBehavior(const Domain& a, const Domain& b) {
  return a.unmatched == b.unmatched && a.colocate == b.colocate;
}

std::string NameOf(const IndexedRule& rule) { return rule.domain + "/" + rule.rule.name; }
std::string NameOf(const Domain& domain) { return "domain " + domain.name; }

template <typename Item>
void CompareItems(std::span<const Item> before, std::span<const Item> after,
                  Difference& difference) {
  std::unordered_map<std::string, const Item*> removed;
  for (const Item& item : before) removed.emplace(NameOf(item), &item);
  for (const Item& item : after) {
    const auto old = removed.extract(NameOf(item));
    if (!old) {
      difference.added.push_back(NameOf(item));
    } else if (!SameBehavior(*old.mapped(), item)) {
      difference.changed.push_back(NameOf(item));
    }
  }
  for (const auto& [name, item] : removed) difference.removed.push_back(name);
}

std::string Part(const std::vector<std::string>& names, std::string_view what) {
  const auto shown = std::span(names).first(std::min(names.size(), kNamesShown));
  const auto rest = names.size() - shown.size();
  return fmt::format("{} {} ({}{})", names.size(), what, fmt::join(shown, ", "),
                     rest > 0 ? fmt::format(" and {} more", rest) : "");
}

}  // namespace

std::string DescribeDifference(const RuleIndex& before, const RuleIndex& after) {
  Difference difference;
  CompareItems(before.domains(), after.domains(), difference);
  CompareItems(before.rules(), after.rules(), difference);
  std::vector<std::string> parts;
  const auto describe = [&](std::vector<std::string>& names, std::string_view what) {
    std::ranges::sort(names);
    if (!names.empty()) parts.push_back(Part(names, what));
  };
  describe(difference.added, "added");
  describe(difference.removed, "removed");
  describe(difference.changed, "changed");
  return parts.empty() ? "none changed" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace sluice
