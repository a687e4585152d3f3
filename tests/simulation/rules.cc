#include "tests/simulation/rules.h"

#include <algorithm>
#include <cstring>

namespace sluice::simulation {
namespace {

using std::chrono::hours;

constexpr std::int64_t kUnits = 8;
constexpr std::int64_t kSlots = 3;

struct NamedLimit {
  const char* name;
  Limit limit;
};
const NamedLimit kLimits[] = {
    {"window", FixedWindow{.limit = kUnits, .window = hours(24)}},
    {"bucket", TokenBucket{.rate = 1, .period = hours(24), .burst = kUnits}},
    {"log", SlidingLog{.limit = kUnits, .window = hours(24)}},
    {"segments", SlidingWindow{.limit = kUnits, .window = hours(24)}},
    {"queue", LeakyBucket{.rate = 1, .period = hours(24), .queue = kUnits - 1, .delays = false}},
    {"slots", Concurrency{.limit = kSlots, .ttl = hours(1)}},
};

// The condition that the request names an endpoint of `rule`.
Condition Meets(const char* rule) {
  Pattern any{.kind = Pattern::Kind::kAnyOf, .text = {}, .of = {}};
  for (const Endpoint& endpoint : kEndpoints) {
    for (const char* const met : endpoint.rules) {
      if (std::strcmp(met, rule) != 0) continue;
      any.of.push_back({.kind = Pattern::Kind::kExact, .text = endpoint.name, .of = {}});
    }
  }
  return {.attribute = "endpoint", .pattern = any};
}

}  // namespace

const Endpoint kEndpoints[8] = {
    {"window", {"window"}},
    {"bucket", {"bucket"}},
    {"log", {"log"}},
    {"segments", {"segments"}},
    {"queue", {"queue"}},
    {"slots", {"slots"}},
    {"two", {"window", "bucket"}},
    {"three", {"log", "queue", "slots"}},
};

std::shared_ptr<const RuleIndex> MakeRules(OnStoreFailure policy, bool colocated) {
  Domain domain;
  domain.name = "shop";
  if (colocated) domain.colocate = "user";
  for (const NamedLimit& named : kLimits) {
    Rule& rule = domain.rules.emplace_back();
    rule.name = named.name;
    rule.match = {Meets(named.name)};
    rule.per = {{.attribute = "user", .ipv4_prefix = {}, .ipv6_prefix = {}}};
    rule.limits.limits = {named.limit};
    rule.on_store_failure = policy;
  }
  return RuleIndex::Build({domain}, {}).value();
}

std::vector<Limit> AllLimits() {
  // The limits in releases of leases, and in probes.
  std::vector<Limit> limits{Concurrency{},
                            FixedWindow{.limit = kMaxProduct, .window = std::chrono::seconds(1)}};
  for (const NamedLimit& named : kLimits) limits.push_back(named.limit);
  return limits;
}

std::vector<std::pair<std::string, Ledger::Counter>> CountersOf(const Endpoint& endpoint,
                                                                const std::string& user) {
  std::vector<std::pair<std::string, Ledger::Counter>> counters;
  for (const char* const rule : endpoint.rules) {
    const bool slots = std::strcmp(rule, "slots") == 0;
    counters.push_back(
        {std::string(rule) + "/" + user, {.limit = slots ? kSlots : kUnits, .slots = slots}});
  }
  return counters;
}

}  // namespace sluice::simulation
