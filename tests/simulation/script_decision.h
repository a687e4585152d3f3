// The decisions of the check script on counters that have been read, with the algorithms of core.
// The twin of scripts/lua/decide.lua. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/algorithm/counter.h"

namespace sluice::simulation {

// What equal checks ask.
struct Asked {
  Demand demand;
  bool leased = false;
  std::vector<std::pair<std::size_t, std::int64_t>> counters;  // limit, group
};

// One counter of one check.
struct Draft {
  const Limit* limit;
  std::int64_t group;
  std::string name;  // its key, or what it counts
  std::int64_t units = 0;
  CounterState state{};
  bool found = false;  // otherwise the counter is new
  bool changed = false;
  std::int64_t charged = 0;  // units, less those undone
};

struct Check {
  const Asked& asked;
  Time now;
  std::optional<Lease> lease{};
  std::int64_t n = 1;
  std::vector<std::vector<double>> before{};  // of an undo, by counter

  CoalescedChecks Of(const Draft& draft, std::int64_t granted = 0) const;
};

// Returns the numbers of the reply. Changes the drafts.
std::vector<double> Decide(const Check& check, std::vector<Draft>& drafts);

}  // namespace sluice::simulation
