// Finds the Sluice rule that decides an Envoy descriptor, by walking the descriptor trees of the
// rule files. compiler.h builds it, together with those rules.
//
// Thread-safe: immutable once built.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "config/yaml_reader.h"
#include "envoy/rules/glob.h"
#include "envoy/rules/unit.h"
#include "match/rule_index.h"

namespace sluice::envoy {

// The attributes of a descriptor's check: the rule at which the walk ended, and the entries, which
// name the counter.
inline constexpr std::string_view kRuleAttribute = "rule";
inline constexpr std::string_view kDescriptorAttribute = "descriptor";

// The name of the rule, in every domain, for descriptors with a limit in the request.
inline constexpr std::string_view kOverrideRule = "(override)";

struct Entry {
  std::string_view key;
  std::string_view value;
};

// The properties of an Envoy rule besides its limit, which is in the Sluice rule.
struct Target {
  std::string rule;      // its name; unique in the domain
  std::uint32_t id = 0;  // unique in the guide
  bool unlimited = false;
  bool quota_mode = false;
  bool detailed_metric = false;
  bool own_limits = false;  // it has `limits`, Sluice's own
  Unit unit = Unit::kUnknown;
  std::uint32_t requests_per_unit = 0;
  std::string name;
  std::vector<std::string> replaces;
};

struct Branches;

// One place in a tree.
struct Place {
  std::unique_ptr<Target> target;  // null: descriptors that end here are not limited
  YamlNode metadata;
  std::string value;             // as written in the file; empty: any
  bool share_threshold = false;  // the counter's name has `value` instead of the entry's value
  bool value_to_metric = false;
  std::unique_ptr<Branches> branches;  // null: none
};

// The places that one entry can lead to, by its key.
struct Branches {
  struct Pattern {
    Glob glob;
    Place place;
  };
  struct OfKey {
    std::unordered_map<std::string, Place, StringHash, std::equal_to<>> exact;
    std::vector<Pattern> patterns;  // the first match applies
    std::unique_ptr<Place> any;     // null: none
  };
  std::unordered_map<std::string, OfKey, StringHash, std::equal_to<>> keys;

  // Null if no branch matches `entry`.
  const Place* Find(const Entry& entry) const;
};

struct DomainGuide {
  Branches branches;
  bool all_or_nothing = false;
};

// For operators, who name a descriptor by its entries alone: kDescriptorAttribute is
// "database=users,tier=gold", and kRuleAttribute is absent. Replaces `attributes` by those of the
// descriptor's check, which are views of `index` and `counter`. No effect if the descriptor has no
// limit.
void CompleteDescriptor(const RuleIndex& index, std::string_view domain,
                        std::vector<Attribute>& attributes, std::string& counter);

class Guide final : public RuleGuide {
 public:
  // The result of a walk. Reused to keep its memory.
  struct Walk {
    const Target* target = nullptr;  // null: no limit
    std::string counter;             // the entries that name the counter
    std::string metric;              // the rule's name in metrics, if it contains values of entries
    std::vector<const Place*> passed;
  };

  // Null if no file defines `domain`.
  const DomainGuide* Find(std::string_view domain) const;

  // The number of targets.
  std::size_t size() const { return size_; }

  static void Follow(const DomainGuide& domain, std::span<const Entry> entries, Walk& walk);

 private:
  friend class Compiler;

  static void NameMetric(std::span<const Entry> entries, Walk& walk);

  std::unordered_map<std::string, DomainGuide, StringHash, std::equal_to<>> domains_;
  std::size_t size_ = 0;
};

}  // namespace sluice::envoy
