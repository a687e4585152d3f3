// The rules in force, frozen: built once from a RuleSet, then only read. Finds the rules that match
// a request at a cost that does not grow with the rules that don't.
//
// Thread-safe: immutable after Build. Everything Match hands out lives as long as the index.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "match/rule.h"

namespace sluice {

struct Attribute {
  std::string_view name;
  std::string_view value;
};

// A limit with what is derived from it once.
struct IndexedLimit {
  Limit limit;
  std::string tag;  // ends the counter's key
};

struct IndexedRule {
  Rule rule;
  std::string domain;
  std::uint32_t id = 0;  // 0 to RuleIndex::size() - 1, in the order of the rule files
};

// A rule that applies to a request.
struct RuleMatch {
  enum class Outcome : std::uint8_t {
    kCount,      // charge `limits`
    kBlocked,    // deny, for ever
    kUnlimited,  // allow, whatever other rules say (but blocked)
    kMissing,    // an attribute of `per` is absent and the rule says deny
    kSkipped,    // an attribute of `per` is absent and the rule says skip
  };
  const IndexedRule* rule = nullptr;
  Outcome outcome = Outcome::kCount;
  // The rule's or an override's; empty unless kCount. Empty with kCount: an override frees the
  // request from this rule, not from others.
  std::span<const IndexedLimit> limits;
  int override_index = -1;  // -1: the rule's own limits
  // kCount: the counters' keys up to their tags, "sluice:{shop/pay-per-user/42}:".
  std::string key_prefix;
};

// What Match found. Reuse one per thread or call: its memory is kept.
struct MatchResult {
  bool domain_known = false;
  Unmatched unmatched = Unmatched::kAllow;  // what the domain, else the server says
  std::size_t count = 0;                    // how many of `rules` are filled
  std::vector<RuleMatch> rules;             // in the order of the rule file

  std::span<const RuleMatch> matches() const { return {rules.data(), count}; }
};

class RuleIndex {
 public:
  struct Options {
    Unmatched unmatched = Unmatched::kAllow;  // for domains that don't say
  };

  // Fails on what parsing a file would have refused (a bad regex or network, a name twice).
  static Result<std::shared_ptr<const RuleIndex>> Build(RuleSet rules, const Options& options);

  ~RuleIndex();

  // Every rule of `domain` whose match holds. Of two attributes of one name the last counts.
  void Match(std::string_view domain, std::span<const Attribute> attributes,
             MatchResult& result) const;

  // The ttl of the concurrency limit that counts under `key`, the longest if there are several.
  // Nothing if no rule has one.
  std::optional<Duration> LeaseTtl(std::string_view key) const;

  // Every domain's own settings. Their rules have moved to rules().
  std::span<const Domain> domains() const;

  // All rules, by id.
  std::span<const IndexedRule> rules() const;
  std::size_t size() const { return rules().size(); }

 private:
  RuleIndex();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
