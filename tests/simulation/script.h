// The check script in C++: decodes the calls of store/redis and decides them with the algorithms of
// core, so that a simulation runs without a Lua interpreter. Its counterpart is
// scripts/lua/check.lua; the differential test compares the algorithms.
//
// Each check is decided twice. The first decision uses the counters and records under the keys of
// the call; keys expire and move. The second uses the true records and the true counters, which are
// identified by what they count. The decisions must agree.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/algorithm/counter.h"
#include "tests/simulation/model.h"
#include "tests/simulation/planted.h"
#include "tests/simulation/script_decision.h"

namespace sluice::simulation {

class Script {
 public:
  // Only these limits can be decoded. `model` records the true counters and must outlive this
  // object. If `model` is null, wrong decisions are not reported.
  Script(std::span<const Limit> limits, Model* model);

  struct Counter {
    Limit limit;  // of its last change
    CounterState state;
    Time expires;
  };
  struct Counters {
    std::map<std::string, Counter, std::less<>> by_key;
    TrueCounters by_name;
    Records records;
    Records true_records;
    std::set<LeaseId> leases;  // all that occurred in calls

    // Whether a counter or a record has the key.
    bool Has(std::string_view key) const { return by_key.contains(key) || records.contains(key); }
    std::vector<std::string> KeysOf(std::uint16_t slot) const;
    void MoveKey(const std::string& key, Counters& to);
    void ForgetGrants(const std::string& key);  // for a planted fault
  };

  struct Call {
    // The keys and arguments of EVALSHA, after the number of keys.
    std::span<const std::string> keys;
    std::span<const std::string> arguments;
    Time now;
    int server = 0;  // that sent the call
    // Whether a key that the call has not declared may be read here.
    std::function<bool(std::string_view key)> may_read;
    Planted planted = Planted::kNothing;
  };
  // Returns the reply.
  std::vector<std::string> Run(const Call& call, Counters& counters) const;

  // A copy, as on a replica: shares nothing with `counters`.
  static Counters Copy(const Counters& counters);

 private:
  class Decider;

  std::map<std::vector<double>, Limit> limits_;  // by algorithm and parameters, as in calls
  Model* const model_;
};

}  // namespace sluice::simulation
