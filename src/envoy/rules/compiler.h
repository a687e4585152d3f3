// Envoy's rule trees → Sluice's rules and the guide to them. The only bridge between the two: a
// descriptor becomes a check of the domain with two attributes,
//   rule        the place in the tree where the descriptor ends, such as "database=users,tier"
//   descriptor  its entries, such as "database=users,tier=gold"
// and every limit of the tree a rule that matches the first and counts per the second.
#pragma once

#include <memory>
#include <vector>

#include "envoy/rules/guide.h"
#include "envoy/rules/rule_file.h"
#include "match/rule.h"

namespace sluice::envoy {

struct CompiledRules {
  RuleSet rules;  // a domain for each tree
  std::shared_ptr<const Guide> guide;
};

// Thread-safe. REQUIRES: the trees are free of mistakes, of one domain each.
CompiledRules Compile(std::vector<RuleTree> trees);

// What counts a unit as the peer does.
Limit LimitOf(Unit unit, std::uint32_t requests);

}  // namespace sluice::envoy
