// Finds the Sluice rule that decides an Envoy descriptor: a trie of the descriptors in the rule
// files, by domain. compiler.h builds it together with the rules.
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
#include "envoy/rules/rule_file.h"
#include "match/rule_index.h"

namespace sluice::envoy {

// The attributes of a descriptor's check: the name of the rule to which the descriptor's entries
// lead in the trie, and the entries themselves, which name the counter.
inline constexpr std::string_view kRuleAttribute = "rule";
inline constexpr std::string_view kDescriptorAttribute = "descriptor";

// The rule that every domain has for descriptors whose limit is in the request.
inline constexpr std::string_view kOverrideRule = "(override)";

struct Entry {
  std::string_view key;
  std::string_view value;
};

// A list of entries as one text, such as "database=users,tier=gold". Such texts name rules and
// counters, so different lists have different texts. AppendKey appends "key", AppendEntry
// appends "key=value". If `out` is not empty, a comma is appended first. Characters with a meaning
// in such a text are escaped by a backslash.
void AppendKey(std::string_view key, std::string& out);
void AppendEntry(std::string_view key, std::string_view value, std::string& out);

// The entries of such a text, keys and values alternating. A key without a value has the value "".
std::vector<std::string> SplitEntries(std::string_view text);

// Replaces a text of more than 2,048 bytes by '#' and a digest.
void DigestIfLong(std::string& entries);

// The properties of an Envoy rule that a descriptor's check needs. The Sluice rule has the limits.
struct Target {
  std::string rule;  // the name of the Sluice rule; unique in the domain
  bool quota_mode = false;
  bool detailed_metric = false;
  bool own_limits = false;       // it has Sluice's own `limits`
  bool counts_requests = false;  // one of these limits counts requests
  Unit unit = Unit::kUnknown;
  std::uint32_t requests_per_unit = 0;
  std::string name;
  std::vector<std::string> replaces;
};

// A pattern in which '*' matches any number of characters, including none.
class Glob {
 public:
  explicit Glob(std::string_view pattern);

  // Takes time proportional to the length of `text` times the length of the longest part between
  // stars.
  bool Matches(std::string_view text) const;

 private:
  std::vector<std::string> parts_;  // the texts between the stars, one more than there are stars
};

struct Children;

// A descriptor of the rule files.
struct TrieNode {
  std::unique_ptr<Target> target;  // null: descriptors that end here are not limited
  YamlNode metadata;
  std::string value;             // as written in the file; empty: any
  bool share_threshold = false;  // the counter's name has `value` instead of the entry's value
  bool value_to_metric = false;
  std::unique_ptr<Children> children;  // null: none
};

// The nodes that one entry can lead to, by the entry's key.
struct Children {
  struct Pattern {
    Glob glob;
    TrieNode node;
  };
  struct OfKey {
    std::unordered_map<std::string, TrieNode, StringHash, std::equal_to<>> exact;
    std::vector<Pattern> patterns;  // the first match applies
    std::unique_ptr<TrieNode> any;  // null: none
  };
  std::unordered_map<std::string, OfKey, StringHash, std::equal_to<>> keys;

  // Null if no branch matches `entry`.
  const TrieNode* Find(const Entry& entry) const;
};

struct DomainGuide {
  Children children;
  bool all_or_nothing = false;
};

// Operators name a descriptor by its entries alone: `attributes` has only kDescriptorAttribute,
// such as "database=users,tier=gold". Replaces `attributes` by the attributes of the descriptor's
// check, which are views of `index` and `counter`. If the descriptor has no limit, does nothing.
void CompleteDescriptor(const RuleIndex& index, std::string_view domain,
                        std::vector<Attribute>& attributes, std::string& counter);

// The nodes that a descriptor's entries led to. Reused to keep its memory.
struct TrieMatch {
  const Target* target = nullptr;  // null: no limit
  std::string counter;             // the entries that name the counter
  std::string metric;              // the rule's name in metrics, if it contains values of entries
  std::vector<const TrieNode*> passed;
};

void Match(const DomainGuide& domain, std::span<const Entry> entries, TrieMatch& match);

struct Guide final : RuleGuide {
  std::unordered_map<std::string, DomainGuide, StringHash, std::equal_to<>> domains;

  // Null if the rules do not define `domain`.
  const DomainGuide* Find(std::string_view domain) const;
};

}  // namespace sluice::envoy
