#include "envoy/rules/compiler.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace sluice::envoy {
namespace {

// The keys of counters contain the entries instead of the rule's name. So a limit in a request
// shares its counter with the rule that has the same entries and unit.
Rule NamedRule(std::string_view name) {
  Rule rule;
  rule.name = name;
  rule.counter = kDescriptorAttribute;
  rule.match = {{std::string(kRuleAttribute),
                 {.kind = sluice::Pattern::Kind::kExact, .text = rule.name, .of = {}}}};
  rule.per = {{std::string(kDescriptorAttribute), {}, {}}};
  return rule;
}

Limits LimitsOf(const RateLimit& limit) {
  if (limit.unlimited) return {Limits::Effect::kUnlimited, {}};
  if (!limit.limits.empty()) return {Limits::Effect::kCount, limit.limits};
  return {Limits::Effect::kCount, {LimitOf(limit.unit, limit.requests_per_unit)}};
}

bool CountsRequests(const std::vector<RuleLimit>& limits) {
  return std::ranges::any_of(limits, [](const RuleLimit& limit) {
    return std::ranges::any_of(
        limit.counts, [](const CountedAmount& it) { return it.name == CountedAmount::kRequests; });
  });
}

}  // namespace

class Compiler {
 public:
  void Add(RuleTree tree) {
    Domain domain{.name = tree.domain, .unmatched = Unmatched::kAllow, .colocate = {}, .rules = {}};
    DomainGuide& guide = guide_->domains[domain.name];
    guide.all_or_nothing = tree.all_or_nothing;
    domain_ = &domain;
    for (Descriptor& it : tree.descriptors) AddNode(std::move(it), "", guide.children);
    domain.rules.push_back(NamedRule(kOverrideRule));
    rules_.push_back(std::move(domain));
  }

  CompiledRules Finish() { return {std::move(rules_), std::move(guide_)}; }

 private:
  // `path` names the nodes that lead to this node.
  void AddNode(Descriptor descriptor, std::string path, Children& siblings) {
    TrieNode node;
    if (descriptor.value.empty()) {
      AppendKey(descriptor.key, path);
    } else {
      AppendEntry(descriptor.key, descriptor.value, path);
    }
    if (descriptor.rate_limit) node.target = AddRule(descriptor, path);
    node.value = descriptor.value;
    node.share_threshold = descriptor.share_threshold;
    node.value_to_metric = descriptor.value_to_metric;
    node.metadata = std::move(descriptor.metadata);
    if (!descriptor.descriptors.empty()) node.children = std::make_unique<Children>();
    for (Descriptor& child : descriptor.descriptors) {
      AddNode(std::move(child), path, *node.children);
    }
    Children::OfKey& of_key = siblings.keys[descriptor.key];
    if (descriptor.value.empty()) {
      of_key.any = std::make_unique<TrieNode>(std::move(node));
    } else if (descriptor.is_wildcard()) {
      of_key.patterns.push_back({Glob(descriptor.value), std::move(node)});
    } else {
      of_key.exact.try_emplace(std::move(descriptor.value), std::move(node));
    }
  }

  std::unique_ptr<Target> AddRule(const Descriptor& descriptor, const std::string& path) {
    const RateLimit& limit = *descriptor.rate_limit;
    std::string name = path;
    DigestIfLong(name);
    Rule rule = NamedRule(name);
    rule.location = fmt::format("{}:{}", descriptor.file, descriptor.position.line);
    rule.limits = LimitsOf(limit);
    rule.shadow =
        descriptor.shadow_mode && !limit.unlimited;  // an unlimited rule is never over its limit
    rule.on_store_failure = limit.on_store_failure;
    domain_->rules.push_back(std::move(rule));
    return std::make_unique<Target>(Target{.rule = std::move(name),
                                           .quota_mode = descriptor.quota_mode,
                                           .detailed_metric = descriptor.detailed_metric,
                                           .own_limits = !limit.limits.empty(),
                                           .counts_requests = CountsRequests(limit.limits),
                                           .unit = limit.unit,
                                           .requests_per_unit = limit.requests_per_unit,
                                           .name = limit.name,
                                           .replaces = limit.replaces});
  }

  RuleSet rules_;
  std::shared_ptr<Guide> guide_ = std::make_shared<Guide>();
  Domain* domain_ = nullptr;
};

CompiledRules Compile(std::vector<RuleTree> trees) {
  Compiler compiler;
  for (RuleTree& tree : trees) compiler.Add(std::move(tree));
  return compiler.Finish();
}

Limit LimitOf(Unit unit, std::uint32_t requests) {
  return FixedWindow{
      .limit = requests, .window = LengthOf(unit), .align = FixedWindow::Align::kEpoch};
}

}  // namespace sluice::envoy
