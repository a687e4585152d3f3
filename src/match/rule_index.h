// The immutable index of the rules, built once from a RuleSet. Finds the rules that match a request
// at a cost that does not grow with the number of other rules.
//
// Thread-safe: immutable after Build. Results of Match are valid as long as the index.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "match/rule.h"

namespace sluice {

// A limit with derived data.
struct IndexedLimit {
  Limit limit;
  std::string tag;  // ends the counter's key
  Counts counts;    // from the rule's limit
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
    kBlocked,    // deny always
    kUnlimited,  // allow, unless another rule is kBlocked
    kMissing,    // an attribute of `per` has no usable value; the rule denies
    kSkipped,    // an attribute of `per` has no usable value; the rule is skipped
  };
  const IndexedRule* rule = nullptr;
  Outcome outcome = Outcome::kCount;
  // The limits of the rule or of an override; empty unless kCount. If they are empty although the
  // outcome is kCount, an override exempts the request from this rule, but not from others.
  std::span<const IndexedLimit> limits;
  int override_index = -1;  // -1: the rule's own limits
  // kCount: the counters' keys up to their tags, "sluice:{shop/pay-per-user/user=42}:".
  std::string key_prefix;
};

// The parts of the rule's `per` for which the request has no usable value: the attribute is absent,
// or its value must be an IP address but is not. The pointers point into `rule`.
std::vector<const KeyPart*> MissingParts(const Rule& rule, std::span<const Attribute> attributes);

// The result of Match. To reuse its memory, keep one per thread or call.
struct MatchResult {
  bool domain_known = false;
  Unmatched unmatched = Unmatched::kAllow;  // the domain's setting; if absent, the server's
  std::size_t count = 0;                    // number of filled elements of `rules`
  std::vector<RuleMatch> rules;             // in the order of the rule file

  std::span<const RuleMatch> matches() const { return {rules.data(), count}; }
};

// Finds the rules for requests of another protocol. Part of an index, so that guide and index are
// always from the same version of the files. Immutable.
class RuleGuide {
 public:
  virtual ~RuleGuide() = default;
};

class RuleIndex {
 public:
  struct Options {
    Unmatched unmatched = Unmatched::kAllow;  // for domains without this setting
    std::shared_ptr<const RuleGuide> guide;   // or null
  };

  // Fails on input that the parser would refuse (a bad regex or network, a duplicate name).
  static Result<std::shared_ptr<const RuleIndex>> Build(RuleSet rules, const Options& options);

  ~RuleIndex();

  // Finds every matching rule of `domain`. If attributes have the same name, the last one counts.
  void Match(std::string_view domain, std::span<const Attribute> attributes,
             MatchResult& result) const;

  // Whether a limit of `domain` counts `amount`.
  bool IsCounted(std::string_view domain, std::string_view amount) const;

  // Null if Build got no guide.
  const RuleGuide* guide() const;

  // The settings of the domains. In each, `rules` is empty: see rules().
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
