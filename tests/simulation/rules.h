// The rules of the simulation: one for each algorithm, and an endpoint that matches two of them.
// Nothing refills during a schedule.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "match/rule_index.h"
#include "tests/simulation/ledger.h"

namespace sluice::simulation {

struct Endpoint {
  const char* name;
  std::vector<const char*> rules;  // that it matches
};
extern const Endpoint kEndpoints[8];

// `colocated`: all counters of a user have one hash slot.
std::shared_ptr<const RuleIndex> MakeRules(OnStoreFailure policy, bool colocated);

// Every limit that a script call may name.
std::vector<Limit> AllLimits();

// The counters that a check charges, by their names in the ledger.
std::vector<std::pair<std::string, Ledger::Counter>> CountersOf(const Endpoint& endpoint,
                                                                const std::string& user);

}  // namespace sluice::simulation
