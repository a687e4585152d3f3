// The rules of the simulation, in versions. Versions differ in everything that a reload may change:
// limits and their order, rates, windows, what is counted, exceptions. There is a rule for each
// algorithm, and endpoints that match several rules. Two rules count tokens, the others the cost.
// All servers, some or none may prefetch two rules with larger limits: pool and quota. In some
// versions, quota has short windows. All other windows are longer than a schedule. Only these short
// windows, fast buckets and the warming bucket refill. The number of slots follows the load in some
// versions.
//
// One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "match/rule_index.h"
#include "tests/simulation/planted.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

// The name of the amount in requests that some limits count instead of the cost.
inline constexpr const char* kTokens = "tokens";

// The attributes of a check.
struct Subject {
  const char* endpoint = nullptr;
  const char* user = nullptr;
  const char* team = nullptr;  // teams and users have the same names
};

// A counter, named by what it counts ("bucket first user token_bucket:1d anna"), and one of its
// limits, without `prefetch`.
struct Charged {
  std::string counter;
  Limit limit;
  std::string name{};  // of the limit in its rule
};

class Rules {
 public:
  static constexpr std::size_t kServers = 2;

  Rules(World& world, Planted planted);

  Subject DrawSubject() const;
  // The subject of an endpoint with a rule that may be prefetched.
  Subject DrawBusySubject() const;

  // Adds a version in which some rules are changed. Versions are numbered from 0; version 0 always
  // exists.
  int DrawVersion();
  int versions() const { return static_cast<int>(versions_.size()); }
  // The rules of the version, as `server` has them.
  std::shared_ptr<const RuleIndex> IndexOf(int version, std::size_t server) const;

  // The counters that a check charges under a version.
  std::vector<Charged> ChargedIn(int version, const Subject& subject) const;
  // The counters that a check charges under at least one version.
  std::vector<Charged> ChargedInAny(const Subject& subject) const;
  // The counter of the limit at `index` of a rule; empty if that version has no such limit.
  std::optional<Charged> ChargedBy(int version, std::string_view rule, std::size_t index,
                                   const Subject& subject) const;
  // The longest life of a grant of the rule at `server`. Zero if the server takes no such grants.
  Duration PrefetchOf(int version, std::string_view rule, std::size_t server) const;
  // All counters that can be charged under a version.
  std::vector<Charged> AllIn(int version) const;
  // The limits of a counter under all versions, without those of probes.
  std::vector<Limit> LimitsOf(const std::string& counter) const;
  OnStoreFailure policy() const { return policy_; }  // of every rule

  // Whether the limit of a counter counts tokens instead of the cost.
  static bool CountsTokens(std::string_view counter);
  // For slots: whether the limit in force may be `in_force`. True for other limits.
  static bool IsWithinBounds(const Limit& limit, std::int64_t in_force);
  // Whether every limit of the endpoint may be prefetched.
  static bool MayPrefetch(std::string_view endpoint);

  // The counter that a call to Redis concerns. The limit shows the rule, whether it is the rule's
  // first or second limit, and whether it counts by user or by team: limits that differ in one of
  // these are never equal. The key shows which user or team.
  static std::string CounterOf(const Limit& limit, std::string_view key);
  // Every limit that a call may have.
  static std::vector<Limit> AllLimits();

 private:
  // One rule in one version.
  struct Shape {
    enum class Exception : std::uint8_t { kNone, kSharedCounter, kOwnCounter };
    bool large = true;
    bool fast = false;     // a high rate, other windows or `adapt`; see MakeLimit in rules.cc
    bool by_team = false;  // instead of by user
    // The limits of the rule in their order: false is its first limit, true its second limit, which
    // has more units.
    std::vector<bool> limits{false};
    Exception exception = Exception::kNone;  // other limits for one of the users
    bool exception_fast = false;
    std::array<Duration, kServers> prefetch{};  // by server
  };

  void Change(Shape& shape);
  void NoteLimits();  // of the latest version
  void DrawPrefetch(Shape& shape);
  Rule MakeRule(int version, std::size_t rule, std::size_t server) const;
  std::vector<Charged> ChargedIn(int version, std::size_t rule, const Subject& subject) const;

  World& world_;
  const Planted planted_;
  const OnStoreFailure policy_;
  const bool colocated_;                              // all counters of a user have one hash slot
  std::vector<std::vector<Shape>> versions_;          // by version and rule
  std::map<std::string, std::vector<Limit>> limits_;  // by counter
};

}  // namespace sluice::simulation
