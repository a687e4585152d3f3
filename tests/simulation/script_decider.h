// Decides the checks of one call of the check script twice: by the counters of a Redis server, and
// by the true counters (see script.h).
//
// One thread; lives as long as the call.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/script.h"
#include "tests/simulation/script_decision.h"

namespace sluice::simulation {

class Script::Decider {
 public:
  Decider(Model* model, const Call& call, Counters& counters)
      : model_(model), call_(call), counters_(counters) {}

  // Decides twice: by the counters under the keys, and by the true counters. Returns the numbers of
  // the reply.
  std::vector<double> Decide(const Check& check, std::vector<Draft> drafts);

  // Sets the expiries of the written keys. To be called at the end of a script call.
  void SetExpiries();

 private:
  template <typename ByName>
  void Read(const ByName& counters, const Check& check, std::vector<Draft>& drafts) const;
  void Expire(const std::string& key, const Draft& true_draft);
  void Misread(std::vector<Draft>& drafts) const;
  void KeepBounds(std::vector<Draft>& drafts) const;
  void JudgeSlots(const Check& check, const std::vector<std::int64_t>& limits,
                  const std::vector<Draft>& drafts) const;
  void Follow(const std::vector<Draft>& drafts, std::vector<Draft>& true_drafts);
  bool Write(const Draft& draft);
  void WriteTrue(const Draft& draft, const std::string& key, Mode mode, bool written);

  Model* const model_;
  const Call& call_;
  Counters& counters_;
  std::map<std::string, Time> matter_until_;  // by key, of the counters that were written
};

}  // namespace sluice::simulation
