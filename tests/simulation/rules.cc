#include "tests/simulation/rules.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace sluice::simulation {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

const char* const kRules[] = {"window", "bucket", "log",   "segments", "queue",
                              "warm",   "pool",   "quota", "slots"};
constexpr std::size_t kPoolRule = 6;
constexpr std::size_t kQuotaRule = 7;
constexpr std::size_t kSlotsRule = std::size(kRules) - 1;
const char* const kNames[] = {"anna", "bert"};  // of users and of teams
const char* const kExcepted = kNames[0];        // the user who may have other limits

struct Endpoint {
  const char* name;
  std::vector<std::size_t> rules;  // the rules that match it
};
const Endpoint kEndpoints[] = {
    {"window", {0}}, {"bucket", {1}}, {"log", {2}},    {"segments", {3}},    {"queue", {4}},
    {"warm", {5}},   {"slots", {8}},  {"two", {0, 1}}, {"three", {2, 4, 8}},
};
// Endpoints whose rules may be prefetched, except rule 0 of the last endpoint.
const Endpoint kBusyEndpoints[] = {
    {"pool", {kPoolRule}},
    {"quota", {kQuotaRule}},
    {"both", {kPoolRule, kQuotaRule}},
    {"mixed", {0, kPoolRule}},
};

const std::vector<Endpoint>& AllEndpoints() {
  static const std::vector<Endpoint> all = [] {
    std::vector<Endpoint> both(std::begin(kEndpoints), std::end(kEndpoints));
    both.insert(both.end(), std::begin(kBusyEndpoints), std::end(kBusyEndpoints));
    return both;
  }();
  return all;
}

bool Meets(const Endpoint& endpoint, std::size_t rule) {
  return std::count(endpoint.rules.begin(), endpoint.rules.end(), rule) > 0;
}

// A limit without its values.
struct Identity {
  std::size_t rule = 0;
  bool second = false;
  bool by_team = false;
};

Limit MakeLimit(std::size_t rule, std::int64_t units, bool fast) {
  const hours window(fast ? 48 : 24);
  const std::int64_t per_day = fast ? 20 * 86'400 : 1;
  switch (rule) {
    case 0:
      return FixedWindow{.limit = units, .window = window};
    case 1:
      return TokenBucket{.rate = per_day, .period = hours(24), .burst = units};
    case 2:
      return SlidingLog{.limit = units, .window = window};
    case 3:
      return SlidingWindow{.limit = units, .window = window};
    case 4:
      return LeakyBucket{.rate = per_day, .period = hours(24), .queue = units - 1, .delays = false};
    case 5:
      return WarmingBucket{
          .rate = 10 * units, .period = seconds(1), .warmup = fast ? seconds(1) : seconds(3600)};
    case kPoolRule:
      return TokenBucket{
          .rate = fast ? 80 * units * 3600 : 1, .period = hours(1), .burst = 24 * units};
    case kQuotaRule:
      if (!fast) return FixedWindow{.limit = 20 * units, .window = hours(24)};
      return FixedWindow{
          .limit = 20 * units, .window = milliseconds(80), .align = FixedWindow::Align::kEpoch};
    default:
      if (!fast) return Concurrency{.limit = units / 2, .ttl = hours(1)};
      return Concurrency{.limit = units,
                         .ttl = hours(1),
                         .adapt = {.on = true,
                                   .min = std::max<std::int64_t>(1, units - 4),
                                   .latency = milliseconds(100),
                                   .share = 90}};
  }
}

// Limits of different identities have different values.
Limit MakeLimit(const Identity& identity, bool large, bool fast) {
  const int units = (large ? 8 : 4) + (identity.by_team ? 2 : 0) + (identity.second ? 1 : 0);
  return MakeLimit(identity.rule, units, fast);
}

std::string NameOf(const Identity& identity, const Limit& limit) {
  return fmt::format("{} {} {} {}", kRules[identity.rule], identity.second ? "second" : "first",
                     identity.by_team ? "team" : "user", CounterTag(limit));
}

// Every limit, with its name.
const std::vector<Charged>& Table() {
  static const std::vector<Charged> table = [] {
    std::vector<Charged> all;
    for (std::size_t i = 0; i < 16 * std::size(kRules); ++i) {
      const Identity identity{.rule = i / 16, .second = (i & 1) != 0, .by_team = (i & 2) != 0};
      if (identity.rule == kSlotsRule && (identity.second || identity.by_team)) continue;
      const Limit limit = MakeLimit(identity, (i & 4) != 0, (i & 8) != 0);
      all.push_back({NameOf(identity, limit), limit});
    }
    return all;
  }();
  return table;
}

Pattern Exactly(const char* text) {
  return {.kind = Pattern::Kind::kExact, .text = text, .of = {}};
}

// The condition that the request names an endpoint of `rule`.
Condition NamesEndpointOf(std::size_t rule) {
  Pattern any{.kind = Pattern::Kind::kAnyOf, .text = {}, .of = {}};
  for (const Endpoint& endpoint : AllEndpoints()) {
    if (Meets(endpoint, rule)) any.of.push_back(Exactly(endpoint.name));
  }
  return {.attribute = "endpoint", .pattern = any};
}

OnStoreFailure DrawPolicy(World& world) {
  const OnStoreFailure policies[] = {OnStoreFailure::kLocal, OnStoreFailure::kLocal,
                                     OnStoreFailure::kDeny, OnStoreFailure::kError,
                                     OnStoreFailure::kAllow};
  return world.Pick(policies);
}

}  // namespace

Rules::Rules(World& world, Planted planted)
    : world_(world), planted_(planted), policy_(DrawPolicy(world)), colocated_(world.OneIn(6)) {
  versions_.emplace_back(std::size(kRules));
  for (Shape& shape : versions_.front()) {
    shape.large = world_.OneIn(3);
    shape.fast = world_.OneIn(3);
    DrawPrefetch(shape);
  }
  versions_.front()[kPoolRule].fast = !world_.OneIn(4);
  versions_.front()[kQuotaRule].fast = !world_.OneIn(4);
  versions_.front()[kSlotsRule].fast = !world_.OneIn(3);
  NoteLimits();
}

Subject Rules::DrawSubject() const {
  return {.endpoint = world_.Pick(kEndpoints).name,
          .user = world_.Pick(kNames),
          .team = world_.Pick(kNames)};
}

Subject Rules::DrawBusySubject() const {
  const std::uint64_t among = world_.OneIn(3) ? std::size(kBusyEndpoints) : 2;
  return {.endpoint = kBusyEndpoints[world_.Below(among)].name,
          .user = world_.Pick(kNames),
          .team = world_.Pick(kNames)};
}

Duration Rules::PrefetchOf(int version, std::string_view rule, std::size_t server) const {
  const auto named = std::find(std::begin(kRules), std::end(kRules), rule) - std::begin(kRules);
  if (named != kPoolRule && named != kQuotaRule) return {};
  const auto& version_rules = versions_[static_cast<std::size_t>(version)];
  return version_rules[static_cast<std::size_t>(named)].prefetch[server];
}

// In some versions, only some of the servers prefetch, or none.
void Rules::DrawPrefetch(Shape& shape) {
  const Duration lives[] = {milliseconds(40), milliseconds(80), milliseconds(150)};
  const std::size_t counts[] = {0, 1, 1, kServers, kServers, kServers};
  const std::size_t count = world_.Pick(counts);
  for (std::size_t i = 0; i < kServers; ++i) {
    shape.prefetch[i] = i < count ? world_.Pick(lives) : Duration();
  }
}

int Rules::DrawVersion() {
  std::vector<Shape> version = versions_.back();
  for (Shape& shape : version) {
    if (world_.OneIn(2)) Change(shape);
    if (world_.OneIn(4)) DrawPrefetch(shape);
  }
  // A call that releases a lease does not carry the values of the limit (see CounterOf), so slots
  // have no second limit and are not counted by team.
  version[kSlotsRule].limits = {false};
  version[kSlotsRule].by_team = false;
  versions_.push_back(std::move(version));
  NoteLimits();
  return versions() - 1;
}

std::vector<Limit> Rules::LimitsOf(const std::string& counter) const {
  const auto known = limits_.find(counter);
  return known == limits_.end() ? std::vector<Limit>() : known->second;
}

void Rules::NoteLimits() {
  for (const Charged& charged : AllIn(versions() - 1)) {
    std::vector<Limit>& limits = limits_[charged.counter];
    if (std::count(limits.begin(), limits.end(), charged.limit) == 0) {
      limits.push_back(charged.limit);
    }
  }
}

void Rules::Change(Shape& shape) {
  using Exception = Shape::Exception;
  const std::vector<bool> limits[] = {{false}, {true}, {false, true}, {true, false}};
  const Exception exceptions[] = {Exception::kNone, Exception::kSharedCounter,
                                  Exception::kOwnCounter};
  switch (world_.Below(6)) {
    case 0:
      shape.large = !shape.large;
      return;
    case 1:
    case 2:
      shape.fast = !shape.fast;
      return;
    case 3:
      shape.by_team = !shape.by_team;
      return;
    case 4:
      shape.limits = world_.Pick(limits);
      return;
    default:
      shape.exception = world_.Pick(exceptions);
      shape.exception_fast = world_.OneIn(2);
  }
}

std::vector<Charged> Rules::ChargedIn(int version, std::size_t rule, const Subject& subject) const {
  using Exception = Shape::Exception;
  const Shape& shape = versions_[static_cast<std::size_t>(version)][rule];
  const bool excepted = shape.exception != Exception::kNone && subject.user == kExcepted;
  const char* const own = excepted && shape.exception == Exception::kOwnCounter ? " own" : "";
  std::vector<Charged> charged;
  for (const bool second : shape.limits) {
    const Identity identity{.rule = rule, .second = second, .by_team = shape.by_team};
    const Limit limit =
        MakeLimit(identity, shape.large != excepted, excepted ? shape.exception_fast : shape.fast);
    charged.push_back({fmt::format("{}{} {}", NameOf(identity, limit), own,
                                   shape.by_team ? subject.team : subject.user),
                       limit, second ? "second" : "first"});
  }
  return charged;
}

std::vector<Charged> Rules::ChargedIn(int version, const Subject& subject) const {
  std::vector<Charged> charged;
  for (const Endpoint& endpoint : AllEndpoints()) {
    if (std::strcmp(endpoint.name, subject.endpoint) != 0) continue;
    for (const std::size_t rule : endpoint.rules) {
      for (Charged& counter : ChargedIn(version, rule, subject)) {
        charged.push_back(std::move(counter));
      }
    }
  }
  return charged;
}

std::vector<Charged> Rules::ChargedInAny(const Subject& subject) const {
  std::vector<Charged> charged;
  for (int version = 0; version < versions(); ++version) {
    for (Charged& counter : ChargedIn(version, subject)) {
      const bool known = std::any_of(charged.begin(), charged.end(), [&](const Charged& other) {
        return other.counter == counter.counter;
      });
      if (!known) charged.push_back(std::move(counter));
    }
  }
  return charged;
}

std::optional<Charged> Rules::ChargedBy(int version, std::string_view rule, std::size_t index,
                                        const Subject& subject) const {
  const auto named = std::find(std::begin(kRules), std::end(kRules), rule);
  const auto charged = ChargedIn(version, static_cast<std::size_t>(named - kRules), subject);
  return index < charged.size() ? std::optional(charged[index]) : std::nullopt;
}

std::vector<Charged> Rules::AllIn(int version) const {
  std::vector<Charged> all;
  for (std::size_t rule = 0; rule < std::size(kRules); ++rule) {
    for (const char* const user : kNames) {
      for (const char* const team : kNames) {
        for (Charged& counter :
             ChargedIn(version, rule, {.endpoint = {}, .user = user, .team = team})) {
          all.push_back(std::move(counter));
        }
      }
    }
  }
  return all;
}

Rule Rules::MakeRule(int version, std::size_t rule, std::size_t server) const {
  const Shape& shape = versions_[static_cast<std::size_t>(version)][rule];
  const auto limits_for = [&](const char* user) {
    Limits limits;
    for (const Charged& counter :
         ChargedIn(version, rule, {.endpoint = {}, .user = user, .team = kNames[0]})) {
      const bool by_place = planted_ == Planted::kCountersByPlace;
      limits.limits.push_back(
          {counter.limit, by_place ? std::to_string(limits.limits.size()) : counter.name});
      Limit& limit = limits.limits.back().limit;
      const bool lacks = planted_ == Planted::kDenialsOutliveReturns && server == 0;
      const Duration prefetch = lacks ? Duration() : shape.prefetch[server];
      if (rule == kPoolRule) std::get<TokenBucket>(limit).prefetch = prefetch;
      if (rule == kQuotaRule) std::get<FixedWindow>(limit).prefetch = prefetch;
      if (CountsTokens(counter.counter)) limits.limits.back().counts = {{.name = kTokens}};
    }
    return limits;
  };
  Rule made;
  made.name = kRules[rule];
  made.match = {NamesEndpointOf(rule)};
  made.per = {{.attribute = shape.by_team ? "team" : "user", .ipv4_prefix = {}, .ipv6_prefix = {}}};
  made.limits = limits_for(kNames[1]);
  made.on_store_failure = policy_;
  if (shape.exception != Shape::Exception::kNone) {
    made.overrides.push_back({.match = {{.attribute = "user", .pattern = Exactly(kExcepted)}},
                              .limits = limits_for(kExcepted),
                              .own_counter = shape.exception == Shape::Exception::kOwnCounter});
  }
  return made;
}

std::shared_ptr<const RuleIndex> Rules::IndexOf(int version, std::size_t server) const {
  Domain domain;
  domain.name = "shop";
  if (colocated_) domain.colocate = "user";
  for (std::size_t rule = 0; rule < std::size(kRules); ++rule) {
    domain.rules.push_back(MakeRule(version, rule, server));
  }
  return RuleIndex::Build({domain}, {}).value();
}

bool Rules::CountsTokens(std::string_view counter) {
  return counter.starts_with("bucket ") || counter.starts_with("log ");
}

bool Rules::IsWithinBounds(const Limit& limit, std::int64_t in_force) {
  const auto* const slots = std::get_if<Concurrency>(&limit);
  if (slots == nullptr) return true;
  return in_force <= slots->limit &&
         in_force >= (slots->adapt.on ? slots->adapt.min : slots->limit);
}

bool Rules::MayPrefetch(std::string_view endpoint) {
  return endpoint == "pool" || endpoint == "quota" || endpoint == "both";
}

std::string Rules::CounterOf(const Limit& limit, std::string_view key) {
  const bool slots = std::holds_alternative<Concurrency>(limit);
  const auto known = std::find_if(Table().begin(), Table().end(), [&](const Charged& named) {
    return slots ? std::holds_alternative<Concurrency>(named.limit) : named.limit == limit;
  });
  if (known == Table().end()) return std::string(key);  // a counter of a probe
  const char* const own = key.find('~') != key.npos ? " own" : "";
  const char* const name = key.find(kNames[0]) != key.npos ? kNames[0] : kNames[1];
  return fmt::format("{}{} {}", known->counter, own, name);
}

std::vector<Limit> Rules::AllLimits() {
  // The limits in calls that release leases, and in probes.
  std::vector<Limit> limits{Concurrency{}, FixedWindow{.limit = kMaxProduct, .window = seconds(1)}};
  for (const Charged& named : Table()) limits.push_back(named.limit);
  return limits;
}

}  // namespace sluice::simulation
