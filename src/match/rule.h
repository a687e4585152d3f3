// The rules as operators write them, after parsing and before indexing: plain values, no behavior.
// config/ and envoy/rules/ fill them from YAML. RuleIndex compiles them.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algorithm/limit.h"

namespace sluice {

// An attribute of a request, as its caller gave it.
struct Attribute {
  std::string_view name;
  std::string_view value;
};

// What a condition requires of an attribute.
struct Pattern {
  // In ascending order of search cost.
  enum class Kind : std::uint8_t {
    kExact,   // the value is `text`
    kPrefix,  // the value begins with `text`
    kCidr,    // the value is an IP address in the network `text`
    kExists,  // the attribute is present
    kRegex,   // RE2 `text` matches the whole value
    kAnyOf,   // at least one element of `of` holds
    kNot,     // the single element of `of` does not hold, for example for an absent attribute
  };
  Kind kind = Kind::kExists;
  std::string text;
  std::vector<Pattern> of;

  bool operator==(const Pattern&) const = default;
};

struct Condition {
  std::string attribute;
  Pattern pattern;

  bool operator==(const Condition&) const = default;
};

// One part of a counter's key. If a prefix is set, the value must be an IP address, and only its
// leading bits are in the key. Any other value counts as absent.
struct KeyPart {
  std::string attribute;
  std::optional<int> ipv4_prefix;  // 0 to 32
  std::optional<int> ipv6_prefix;  // 0 to 128

  bool operator==(const KeyPart&) const = default;
};

// The characters that are allowed in the names of rules and limits.
inline constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

// An amount of a request that a limit counts.
struct CountedAmount {
  std::string name;         // kCost, kRequests, or a name that callers give
  std::int64_t weight = 1;  // units per 1 of the amount; 1 to kMaxWeight

  static constexpr std::string_view kCost = "cost";
  static constexpr std::string_view kRequests = "requests";
  static constexpr std::int64_t kMaxWeight = 1'000'000'000;

  bool operator==(const CountedAmount&) const = default;
};

// What a limit counts: the weighted sum of these amounts, which are sorted by name. If empty, the
// limit counts the cost, with weight 1.
using Counts = std::vector<CountedAmount>;

// A limit of a rule. The keys of its counters end with its CounterTag.
struct RuleLimit {
  Limit limit;
  std::string name;  // may be empty if no other limit of the rule has the same tag
  Counts counts = {};

  RuleLimit() = default;
  template <std::convertible_to<Limit> T>
  RuleLimit(T its_limit, std::string its_name = {})
      : limit(std::move(its_limit)), name(std::move(its_name)) {}

  bool operator==(const RuleLimit&) const = default;
};

// For leases of units: the range of a request's `lease_ttl`, and the longest ttl that a rule allows
// by default.
inline constexpr Duration kMinLeaseTtl = std::chrono::milliseconds(100);
inline constexpr Duration kMaxLeaseTtl = std::chrono::days(1);
inline constexpr Duration kDefaultMaxLeaseTtl = std::chrono::minutes(10);

// What a rule does with a request: counts it against `limits`, or decides without counting.
struct Limits {
  enum class Effect : std::uint8_t { kCount, kBlocked, kUnlimited };
  Effect effect = Effect::kCount;
  std::vector<RuleLimit> limits;  // empty unless kCount

  bool operator==(const Limits&) const = default;
};

// Other limits for some of a rule's requests, such as the requests of one large customer.
struct Override {
  std::vector<Condition> match;
  Limits limits;
  bool own_counter = false;  // false: limits share counters with the rule's limits of equal tags

  bool operator==(const Override&) const = default;
};

enum class OnMissing : std::uint8_t { kSkip, kDeny };
enum class OnStoreFailure : std::uint8_t { kLocal, kAllow, kDeny, kError };
enum class Unmatched : std::uint8_t { kAllow, kDeny };

struct Rule {
  std::string name;  // unique in its domain
  // The rule's name in the keys of its counters. If it is set, the keys have this name and the
  // values of the attributes in `per`. If it is empty, the keys have `name`, and both the names and
  // the values of these attributes.
  std::string counter;
  std::string location;          // file:line
  std::vector<Condition> match;  // all must hold; empty: every request of the domain
  std::vector<KeyPart> per;      // empty: one counter for all
  Limits limits;
  std::vector<Override> overrides;  // the first override whose `match` holds applies
  bool shadow = false;
  OnMissing missing = OnMissing::kSkip;
  OnStoreFailure on_store_failure = OnStoreFailure::kLocal;
  bool deny_cache = true;  // whether a server may deny from memory while a counter is exhausted
  Duration max_lease_ttl = kDefaultMaxLeaseTtl;  // of leases of units

  bool operator==(const Rule&) const = default;
};

struct Domain {
  std::string name;
  std::optional<Unmatched> unmatched;  // absent: the server's setting
  std::string colocate;                // attribute whose value is part of the hash tag; empty: none
  std::vector<Rule> rules;

  bool operator==(const Domain&) const = default;
};

using RuleSet = std::vector<Domain>;

}  // namespace sluice
