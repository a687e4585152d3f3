#include "envoy/rules/guide.h"

#include <utility>

#include "envoy/rules/entry_text.h"

namespace sluice::envoy {

const Place* Branches::Find(const Entry& entry) const {
  const auto of_key = keys.find(entry.key);
  if (of_key == keys.end()) return nullptr;
  const auto& [exact, patterns, any] = of_key->second;
  if (const auto found = exact.find(entry.value); found != exact.end()) return &found->second;
  // A value equal to the text of a pattern selects that pattern.
  const bool has_star = entry.value.find('*') != std::string_view::npos;
  for (const Pattern& pattern : patterns) {
    if (has_star && pattern.place.value == entry.value) return &pattern.place;
  }
  for (const Pattern& pattern : patterns) {
    if (pattern.glob.Matches(entry.value)) return &pattern.place;
  }
  return any.get();
}

const DomainGuide* Guide::Find(std::string_view domain) const {
  const auto found = domains_.find(domain);
  return found == domains_.end() ? nullptr : &found->second;
}

// Every entry must match: a limit applies only to descriptors that end at its place.
void Guide::Follow(const DomainGuide& domain, std::span<const Entry> entries, Walk& walk) {
  walk.target = nullptr;
  walk.counter.clear();
  walk.metric.clear();
  walk.passed.clear();
  const Branches* branches = &domain.branches;
  const Place* place = nullptr;
  bool values_show = false;
  for (const Entry& entry : entries) {
    place = branches == nullptr ? nullptr : branches->Find(entry);
    if (place == nullptr) return;
    walk.passed.push_back(place);
    AppendEntry(entry.key, place->share_threshold ? place->value : entry.value, walk.counter);
    values_show |= place->value_to_metric;
    branches = place->branches.get();
  }
  if (place == nullptr || place->target == nullptr) return;
  walk.target = place->target.get();
  DigestIfLong(walk.counter);
  if (values_show || walk.target->detailed_metric) NameMetric(entries, walk);
}

void CompleteDescriptor(const RuleIndex& index, std::string_view domain,
                        std::vector<Attribute>& attributes, std::string& counter) {
  const auto* const guide = static_cast<const Guide*>(index.guide());
  const DomainGuide* const tree = guide == nullptr ? nullptr : guide->Find(domain);
  if (tree == nullptr || attributes.size() != 1) return;
  if (attributes.front().name != kDescriptorAttribute) return;
  const std::vector<std::string> texts = SplitEntries(attributes.front().value);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < texts.size(); i += 2) entries.push_back({texts[i], texts[i + 1]});
  Guide::Walk walk;
  Guide::Follow(*tree, entries, walk);
  if (walk.target == nullptr) return;
  counter = std::move(walk.counter);
  attributes = {{kRuleAttribute, walk.target->rule}, {kDescriptorAttribute, counter}};
}

void Guide::NameMetric(std::span<const Entry> entries, Walk& walk) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Place& place = *walk.passed[i];
    const bool shown = walk.target->detailed_metric || place.value_to_metric;
    if (shown && !place.share_threshold) {
      AppendEntry(entries[i].key, entries[i].value, walk.metric);
    } else if (place.value.empty()) {
      AppendKey(entries[i].key, walk.metric);
    } else {
      AppendEntry(entries[i].key, place.value, walk.metric);
    }
  }
  DigestIfLong(walk.metric);
}

}  // namespace sluice::envoy
