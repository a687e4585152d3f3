// Compiles Envoy's rule trees to Sluice's rules and a guide that finds them. A descriptor becomes a
// check of the domain with two attributes:
//   rule        the place in the tree where the descriptor ends, such as "database=users,tier"
//   descriptor  its entries, such as "database=users,tier=gold"
// Every limit of the tree becomes a rule that matches the first attribute and counts per value of
// the second.
#pragma once

#include <memory>
#include <vector>

#include "envoy/rules/guide.h"
#include "envoy/rules/rule_file.h"
#include "match/rule.h"

namespace sluice::envoy {

struct CompiledRules {
  RuleSet rules;  // one domain per tree
  std::shared_ptr<const Guide> guide;
};

// Thread-safe. REQUIRES: the trees have no mistakes and distinct domains.
CompiledRules Compile(std::vector<RuleTree> trees);

// A limit of `requests` per `unit`, with the windows of Envoy's service.
Limit LimitOf(Unit unit, std::uint32_t requests);

}  // namespace sluice::envoy
