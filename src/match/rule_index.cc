#include "match/rule_index.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "match/condition_index.h"
#include "match/counter_key.h"
#include "match/request_attributes.h"

namespace sluice {
namespace {

constexpr std::string_view kKeyStart = "sluice:{";

using StringSet = std::unordered_set<std::string, StringHash, std::equal_to<>>;

// KeyPart with its attribute converted to an id.
struct KeySource {
  std::string name;  // what precedes the value
  AttributeId attribute = 0;
  std::optional<int> ipv4_prefix;
  std::optional<int> ipv6_prefix;

  bool needs_address() const { return ipv4_prefix || ipv6_prefix; }
};

// The compiled limits of a rule or of one override.
struct CompiledLimits {
  Limits::Effect effect = Limits::Effect::kCount;
  std::vector<IndexedLimit> limits;
  std::string counter;  // the rule's part of the counter's key
};

struct CompiledOverrides {
  std::vector<CompiledLimits> limits;
  ConditionIndex index;
};

// A rule's data that only Match uses. Its index in State::compiled is the rule's id. There may be
// 100,000 rules, of which few have overrides, so overrides are allocated separately.
struct CompiledRule {
  std::vector<KeySource> key;
  std::optional<std::uint32_t> colocated;  // index in `key` of the value in the hash tag
  CompiledLimits limits;
  std::unique_ptr<CompiledOverrides> overrides;  // null: the rule has none
};

struct CompiledDomain {
  Unmatched unmatched = Unmatched::kAllow;
  std::string key_start;  // "sluice:{shop/"
  std::string colocate;   // "user="
  std::optional<AttributeId> colocate_id;
  AttributeTable attributes;
  StringSet amounts;     // all names in the `counts` of the domain's limits
  ConditionIndex rules;  // entry i is the rule with id first_id + i
  std::uint32_t first_id = 0;
};

// Scratch memory of one Match.
struct Scratch {
  RequestAttributes facts;
  EntryIds rules;
  EntryIds overrides;
};

void AddAttributes(const std::vector<Condition>& conditions, AttributeTable& attributes) {
  for (const Condition& condition : conditions) {
    attributes.Add(condition.attribute, NeedsAddress(condition.pattern));
  }
}

void AddAmounts(const Limits& limits, StringSet& amounts) {
  for (const RuleLimit& limit : limits.limits) {
    for (const CountedAmount& counted : limit.counts) amounts.insert(counted.name);
  }
}

// Adds the names of the attributes and amounts that the rules of `domain` use.
void AddNames(const Domain& domain, CompiledDomain& to) {
  if (!domain.colocate.empty()) to.attributes.Add(domain.colocate, false);
  for (const Rule& rule : domain.rules) {
    AddAttributes(rule.match, to.attributes);
    AddAmounts(rule.limits, to.amounts);
    for (const Override& other : rule.overrides) {
      AddAttributes(other.match, to.attributes);
      AddAmounts(other.limits, to.amounts);
    }
    for (const KeyPart& part : rule.per) {
      to.attributes.Add(part.attribute, part.ipv4_prefix || part.ipv6_prefix);
    }
  }
}

std::vector<IndexedLimit> IndexLimits(const std::vector<RuleLimit>& limits) {
  std::vector<IndexedLimit> indexed;
  indexed.reserve(limits.size());
  for (const RuleLimit& limit : limits) {
    indexed.push_back({limit.limit, CounterTag(limit), limit.counts});
  }
  return indexed;
}

// Fails if two limits of the rule or of one override have equal tags, because they would share a
// counter.
Result<void> CheckTags(const Rule& rule) {
  std::string repeated = RepeatedTag(rule.limits.limits);
  for (const Override& other : rule.overrides) {
    if (repeated.empty()) repeated = RepeatedTag(other.limits.limits);
  }
  if (repeated.empty()) return {};
  return InvalidArgument(fmt::format("{}: rule \"{}\" has two limits {}; their names must differ",
                                     rule.location, rule.name, repeated));
}

Result<void> CheckRules(const Domain& domain) {
  std::unordered_set<std::string_view> names;
  for (const Rule& rule : domain.rules) {
    if (!names.insert(rule.name).second) {
      return InvalidArgument(fmt::format("{}: rule \"{}\" occurs twice", rule.location, rule.name));
    }
    if (auto checked = CheckTags(rule); !checked) return checked;
  }
  return {};
}

// `counter`: the rule's part of the key of a counter.
Result<std::unique_ptr<CompiledOverrides>> CompileOverrides(const std::vector<Override>& overrides,
                                                            const std::string& counter,
                                                            const AttributeTable& attributes) {
  auto compiled = std::make_unique<CompiledOverrides>();
  std::vector<const std::vector<Condition>*> lists;
  for (const Override& other : overrides) {
    lists.push_back(&other.match);
    compiled->limits.push_back(
        {other.limits.effect, IndexLimits(other.limits.limits),
         other.own_counter ? fmt::format("{}~{}", counter, DigestOfMatch(other.match)) : counter});
  }
  auto index = ConditionIndex::Build(lists, attributes);
  if (!index) return index.error();
  compiled->index = std::move(*index);
  return compiled;
}

Result<CompiledRule> CompileRule(const Rule& rule, const CompiledDomain& domain) {
  CompiledRule compiled;
  std::vector<KeyPart> parts = rule.per;
  std::ranges::sort(parts, {}, &KeyPart::attribute);
  for (const KeyPart& part : parts) {
    const AttributeId id = domain.attributes.Find(part.attribute)->id;
    compiled.key.push_back({rule.counter.empty() ? AttributeInKey(part.attribute) : "", id,
                            part.ipv4_prefix, part.ipv6_prefix});
    if (id == domain.colocate_id) {
      compiled.colocated = static_cast<std::uint32_t>(compiled.key.size() - 1);
    }
  }
  std::string counter;
  AppendEscaped(rule.counter.empty() ? rule.name : rule.counter, counter);
  compiled.limits = {rule.limits.effect, IndexLimits(rule.limits.limits), counter};
  if (rule.overrides.empty()) return compiled;
  auto overrides = CompileOverrides(rule.overrides, counter, domain.attributes);
  if (!overrides) return overrides.error();
  compiled.overrides = std::move(*overrides);
  return compiled;
}

// Appends the value of `source` to a key. Returns false if the request has no usable value.
bool AppendKeyValue(const KeySource& source, const AttributeValue* fact, std::string& out) {
  if (fact == nullptr) return false;
  if (!source.needs_address()) {
    AppendEscaped(fact->text(), out);
    return true;
  }
  if (!fact->address) return false;
  const IpAddress& address = *fact->address;
  const int prefix =
      (address.is_v4() ? source.ipv4_prefix : source.ipv6_prefix).value_or(address.bits());
  address.Masked(prefix).AppendTo(out);
  if (prefix < address.bits()) fmt::format_to(std::back_inserter(out), "/{}", prefix);
  return true;
}

bool AppendKeyValues(const CompiledRule& rule, const RequestAttributes& facts, std::string& out) {
  const std::size_t start = out.size();
  for (const KeySource& source : rule.key) {
    if (&source != &rule.key.front()) out += '/';
    out += source.name;
    if (!AppendKeyValue(source, facts.Find(source.attribute), out)) return false;
  }
  DigestIfLong(start, out);
  return true;
}

// Returns false if the request has no usable value for an attribute of the rule's `per`.
bool WriteKeyPrefix(const CompiledDomain& domain, const CompiledRule& rule,
                    const CompiledLimits& limits, const RequestAttributes& facts,
                    std::string& out) {
  out.assign(domain.key_start);
  if (rule.colocated) {
    const KeySource& source = rule.key[*rule.colocated];
    out.append(domain.colocate);
    const std::size_t start = out.size();
    if (!AppendKeyValue(source, facts.Find(source.attribute), out)) return false;
    DigestIfLong(start, out);
    out += '}';
  }
  out.append(limits.counter).append("/");
  if (!AppendKeyValues(rule, facts, out)) return false;
  out += rule.colocated ? ":" : "}:";
  return true;
}

}  // namespace

struct RuleIndex::State {
  std::vector<IndexedRule> rules;
  std::vector<CompiledRule> compiled;  // by rule id
  std::unordered_map<std::string, CompiledDomain, StringHash, std::equal_to<>> domains;
  RuleSet settings;  // of the domains, without their rules
  Options options;

  Result<void> AddDomain(Domain&& domain);
  Result<void> AddRules(Domain&& domain, CompiledDomain& compiled);
  void Apply(const CompiledDomain& domain, std::uint32_t id, Scratch& scratch,
             RuleMatch& match) const;
};

Result<void> RuleIndex::State::AddDomain(Domain&& domain) {
  if (domain.name.empty()) return InvalidArgument("a domain has no name");
  const auto [at, fresh] = domains.try_emplace(domain.name);
  if (!fresh) return InvalidArgument(fmt::format("domain \"{}\" occurs twice", domain.name));
  CompiledDomain& compiled_domain = at->second;
  compiled_domain.unmatched = domain.unmatched.value_or(options.unmatched);
  AddNames(domain, compiled_domain);
  compiled_domain.first_id = static_cast<std::uint32_t>(rules.size());
  compiled_domain.key_start = kKeyStart;
  AppendEscaped(domain.name, compiled_domain.key_start);
  compiled_domain.key_start += '/';
  if (!domain.colocate.empty()) {
    compiled_domain.colocate = AttributeInKey(domain.colocate);
    compiled_domain.colocate_id = compiled_domain.attributes.Find(domain.colocate)->id;
  }
  return AddRules(std::move(domain), compiled_domain);
}

Result<void> RuleIndex::State::AddRules(Domain&& domain, CompiledDomain& compiled_domain) {
  if (auto checked = CheckRules(domain); !checked) return checked;
  std::vector<const std::vector<Condition>*> lists;
  for (Rule& rule : domain.rules) {
    auto compiled_rule = CompileRule(rule, compiled_domain);
    if (!compiled_rule) return compiled_rule.error();
    compiled.push_back(std::move(*compiled_rule));
    const auto id = static_cast<std::uint32_t>(rules.size());
    rules.push_back({.rule = std::move(rule), .domain = domain.name, .id = id});
    lists.push_back(&rules.back().rule.match);
  }
  domain.rules = std::vector<Rule>();  // assigning {} would keep the memory
  settings.push_back(std::move(domain));
  auto index = ConditionIndex::Build(lists, compiled_domain.attributes);
  if (!index) return index.error();
  compiled_domain.rules = std::move(*index);
  return {};
}

void RuleIndex::State::Apply(const CompiledDomain& domain, std::uint32_t id, Scratch& scratch,
                             RuleMatch& match) const {
  using Outcome = RuleMatch::Outcome;
  const CompiledRule& rule = compiled[id];
  const CompiledLimits* limits = &rule.limits;
  match.rule = &rules[id];
  match.limits = {};
  match.override_index = -1;
  match.key_prefix.clear();
  if (rule.overrides) {
    rule.overrides->index.Find(scratch.facts, scratch.overrides);
    if (!scratch.overrides.empty()) {
      match.override_index = static_cast<int>(scratch.overrides.front());
      limits = &rule.overrides->limits[scratch.overrides.front()];
    }
  }
  if (limits->effect == Limits::Effect::kBlocked) {
    match.outcome = Outcome::kBlocked;
  } else if (limits->effect == Limits::Effect::kUnlimited) {
    match.outcome = match.override_index < 0 ? Outcome::kUnlimited : Outcome::kCount;
  } else if (WriteKeyPrefix(domain, rule, *limits, scratch.facts, match.key_prefix)) {
    match.outcome = Outcome::kCount;
    match.limits = limits->limits;
  } else {
    match.key_prefix.clear();
    match.outcome =
        rules[id].rule.missing == OnMissing::kDeny ? Outcome::kMissing : Outcome::kSkipped;
  }
}

std::vector<const KeyPart*> MissingParts(const Rule& rule, std::span<const Attribute> attributes) {
  std::vector<const KeyPart*> missing;
  for (const KeyPart& part : rule.per) {
    const auto given = std::find_if(attributes.rbegin(), attributes.rend(),
                                    [&](const Attribute& it) { return it.name == part.attribute; });
    const bool is_address = part.ipv4_prefix || part.ipv6_prefix;
    if (given == attributes.rend() || (is_address && !IpAddress::Parse(given->value))) {
      missing.push_back(&part);
    }
  }
  return missing;
}

RuleIndex::RuleIndex() : state_(std::make_unique<State>()) {}
RuleIndex::~RuleIndex() = default;

Result<std::shared_ptr<const RuleIndex>> RuleIndex::Build(RuleSet rules, const Options& options) {
  std::shared_ptr<RuleIndex> index(new RuleIndex);
  State& state = *index->state_;
  state.options = options;
  std::size_t total = 0;
  for (const Domain& domain : rules) total += domain.rules.size();
  state.rules.reserve(total);  // so that the addresses of rules remain valid
  state.compiled.reserve(total);
  for (Domain& domain : rules) {
    if (auto added = state.AddDomain(std::move(domain)); !added) return added.error();
  }
  return std::shared_ptr<const RuleIndex>(std::move(index));
}

void RuleIndex::Match(std::string_view domain, std::span<const Attribute> attributes,
                      MatchResult& result) const {
  thread_local Scratch scratch;
  result.count = 0;
  const auto known = state_->domains.find(domain);
  result.domain_known = known != state_->domains.end();
  result.unmatched = state_->options.unmatched;
  if (!result.domain_known) return;
  const CompiledDomain& compiled = known->second;
  result.unmatched = compiled.unmatched;
  scratch.facts.Fill(compiled.attributes, attributes);
  compiled.rules.Find(scratch.facts, scratch.rules);
  if (result.rules.size() < scratch.rules.size()) result.rules.resize(scratch.rules.size());
  for (const EntryId entry : scratch.rules) {
    state_->Apply(compiled, compiled.first_id + entry, scratch, result.rules[result.count++]);
  }
}

bool RuleIndex::IsCounted(std::string_view domain, std::string_view amount) const {
  const auto known = state_->domains.find(domain);
  return known != state_->domains.end() && known->second.amounts.contains(amount);
}

const RuleGuide* RuleIndex::guide() const { return state_->options.guide.get(); }

std::span<const Domain> RuleIndex::domains() const { return state_->settings; }
std::span<const IndexedRule> RuleIndex::rules() const { return state_->rules; }

}  // namespace sluice
