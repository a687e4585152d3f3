// The decisions of the check script on counters that have been read, with the algorithms of core.
// The counterpart is scripts/lua/decide.lua. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/algorithm/counter.h"
#include "tests/simulation/model.h"
#include "tests/simulation/planted.h"

namespace sluice::simulation {

// The parameters of equal checks.
struct Asked {
  Demand demand;
  bool leased = false;
  bool recorded = false;  // under a lease of units
  bool concerns_grants = false;
  std::vector<std::pair<std::size_t, std::int64_t>> counters;  // limit, group
};

// One counter of one check.
struct Draft {
  const Limit* limit;
  std::int64_t group;
  std::string name;    // its key, or what it counts
  std::string record;  // the key of the lease's record with the same hash tag
  std::int64_t units = 0;
  GrantReturn returned{};
  GrantWish wanted{};
  CounterState state{};
  CounterState stored{};  // before it was advanced
  bool found = false;     // otherwise the counter is new
  bool changed = false;
  std::int64_t charged = 0;  // units, less those undone
  bool took_back = false;    // units of a grant
  std::int64_t granted = 0;
  std::int64_t ended = 0;  // units of grants that ended without being returned
  std::optional<Model::Undone> undone{};
  // Units given back, and units charged in addition, by settling a lease of units.
  std::int64_t given_back = 0;
  std::int64_t charged_on_top = 0;
};

// The units that a lease has taken from the counters of one hash tag.
struct Record {
  std::vector<Held> held;  // in the order of the check's counters
  bool settled = false;    // if true, `held` and `lease_ends` are unset
  Time lease_ends{};
  Time ends{};  // of the record
};
using Records = std::map<std::string, Record, std::less<>>;  // by key

struct Check {
  const Asked& asked;
  Time now;
  std::optional<Lease> lease{};
  std::int64_t n = 1;
  std::vector<std::vector<double>> before{};  // for an undo: each counter before the charge

  CoalescedChecks Of(const Draft& draft, std::int64_t granted = 0) const;
};

// Returns the numbers of the reply. Changes the drafts and the records.
std::vector<double> Decide(const Check& check, std::vector<Draft>& drafts, Records& records,
                           Planted planted);

void Append(const CounterSnapshot& snapshot, std::vector<double>& out);

}  // namespace sluice::simulation
