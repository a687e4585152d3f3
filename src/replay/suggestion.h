// Searches for the lowest limits that would have denied at most a given share of their requests.
// Each limit is treated as if it were the only one. Rate and burst of a limit are scaled by the
// same factor. Limits that share counters (those of a rule and of its overrides without their own
// counters) are scaled together. Limits of concurrency are not changed.
//
// One thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "match/rule.h"
#include "replay/timeline.h"

namespace sluice::replay {

class VirtualServer;

class Suggestion {
 public:
  // `share`: each limit of `domain` may deny at most this share of its requests.
  Suggestion(Domain domain, double share);

  // The rules to replay next; empty when the search is done.
  std::optional<Domain> NextTrial();
  // Uses the counts of `server`, which has replayed the rules of the last NextTrial.
  void Learn(const VirtualServer& server);

  // Limits that share counters, and the state and the result of the search for their factor.
  struct Group {
    std::size_t rule = 0;
    int owner = -1;      // the override that owns the counters; -1: the rule
    std::string tag;     // of the counters
    std::string name{};  // of the rule
    double too_low = 0;  // a factor with which the limits deny too much; 0: none is known
    double enough = 0;   // a factor with which the limits do not deny too much; 0: none is known
    double trial = 1;    // the factor to replay next
    Tally now{};         // of the unscaled limits
    Tally then{};        // of the suggested limits
    bool done = false;

    bool Has(const RuleLimit& limit, int its_owner) const;
    // Whether `enough` is known. If it is still unknown when the search is done, even limits
    // 200,000 times as high deny too much.
    bool possible() const { return enough > 0; }
    // The factor of the suggested limits.
    double factor() const { return possible() ? enough : 1; }
  };
  const std::vector<Group>& groups() const { return groups_; }
  // The rules with the suggested limits.
  Domain Suggested() const;

 private:
  static constexpr double kMostFactor = 1e6;

  void AddGroups(std::size_t rule);
  Rule RuleFor(const Group& group) const;
  void Scale(Rule& rule, const Group& group, double factor) const;
  bool SameLimits(const Group& group, double a, double b) const;
  void Choose(Group& group) const;

  const Domain domain_;
  const double share_;
  std::vector<Group> groups_;
  bool first_ = true;
};

}  // namespace sluice::replay
