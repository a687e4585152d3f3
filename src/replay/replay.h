// Applies rules to logs in virtual time: finds what would have been denied, to whom and when. All
// counters are new when the log begins.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "match/rule.h"
#include "replay/request_log.h"
#include "replay/timeline.h"
#include "replay/virtual_server.h"

namespace sluice::replay {

struct ReplayOptions {
  RequestLog::Options log;  // its attributes and domain are set by Replay
  Domain rules;
  std::optional<Domain> against;  // other rules for the same requests
  std::size_t max_memory = 0;     // of the counters of all rules
  // Called from time to time, to show the progress.
  std::function<void(const RequestLog& log)> on_progress = [](const RequestLog&) {};
};

struct ReplayResult {
  LogFacts log;
  std::unique_ptr<VirtualServer> server;
  std::unique_ptr<VirtualServer> against;  // or null
  std::uint64_t newly_denied = 0;          // requests that `against` allows and `rules` denies
  std::uint64_t newly_allowed = 0;         // requests that `against` denies and `rules` allows
  Time first;
  Time last;
  // Why the replay ended before the end of the log; empty if it reached the end.
  std::string stopped;
};

Result<ReplayResult> Replay(ReplayOptions options);

// Calls `visit` for each list of limits of `rule`. The second argument is the index of the override
// whose own counters the limits use, or -1 if the limits use the rule's counters.
template <typename SomeRule, typename Visit>
void ForEachLimits(SomeRule& rule, const Visit& visit) {
  visit(rule.limits, -1);
  for (std::size_t i = 0; i < rule.overrides.size(); ++i) {
    visit(rule.overrides[i].limits, rule.overrides[i].own_counter ? static_cast<int>(i) : -1);
  }
}

// Removes the limits of concurrency, since a log does not say how long requests run. Returns the
// names of the rules that had such limits.
std::vector<std::string> RemoveConcurrency(Domain& domain);

// The amounts that limits of `domain` count but that have no entry in `fields`, sorted. "cost" and
// "requests" are left out.
std::vector<std::string> MissingAmounts(const Domain& domain,
                                        const std::map<std::string, std::string>& fields);

}  // namespace sluice::replay
