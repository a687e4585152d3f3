#include "envoy/rules/guide.h"

#include <utility>

#include "base/hash.h"

namespace sluice::envoy {

namespace {

// '#' begins a digest, and '(' begins the name of the rule for limits in requests.
constexpr std::string_view kSpecial = "\\,=#(";

void AppendEscaped(std::string_view text, std::string& out) {
  for (auto at = text.find_first_of(kSpecial); at != std::string_view::npos;
       at = text.find_first_of(kSpecial)) {
    out.append(text.substr(0, at)).append("\\").append(1, text[at]);
    text.remove_prefix(at + 1);
  }
  out.append(text);
}

void NameMetric(std::span<const Entry> entries, TrieMatch& match) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TrieNode& node = *match.passed[i];
    const bool shown = match.target->detailed_metric || node.value_to_metric;
    if (shown && !node.share_threshold) {
      AppendEntry(entries[i].key, entries[i].value, match.metric);
    } else if (node.value.empty()) {
      AppendKey(entries[i].key, match.metric);
    } else {
      AppendEntry(entries[i].key, node.value, match.metric);
    }
  }
  DigestIfLong(match.metric);
}

}  // namespace

void AppendKey(std::string_view key, std::string& out) {
  if (!out.empty()) out += ',';
  AppendEscaped(key, out);
}

void AppendEntry(std::string_view key, std::string_view value, std::string& out) {
  AppendKey(key, out);
  out += '=';
  AppendEscaped(value, out);
}

std::vector<std::string> SplitEntries(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      parts.back() += text[++i];
    } else if (text[i] == '=' && parts.size() % 2 == 1) {
      parts.emplace_back();
    } else if (text[i] == ',') {
      parts.resize((parts.size() + 1) / 2 * 2 + 1);
    } else {
      parts.back() += text[i];
    }
  }
  parts.resize((parts.size() + 1) / 2 * 2);
  return parts;
}

void DigestIfLong(std::string& entries) {
  if (entries.size() > 2'048) entries = "#" + Sha256Hex128(entries);
}

Glob::Glob(std::string_view pattern) {
  for (auto star = pattern.find('*'); star != std::string_view::npos; star = pattern.find('*')) {
    parts_.emplace_back(pattern.substr(0, star));
    pattern.remove_prefix(star + 1);
  }
  parts_.emplace_back(pattern);
}

// The text must begin with the first part and end with the last one. Every other part is matched at
// its first occurrence, which leaves the most text for later parts.
bool Glob::Matches(std::string_view text) const {
  if (!text.starts_with(parts_.front())) return false;
  if (parts_.size() == 1) return text.size() == parts_.front().size();
  text.remove_prefix(parts_.front().size());
  for (std::size_t i = 1; i + 1 < parts_.size(); ++i) {
    const auto found = text.find(parts_[i]);
    if (found == std::string_view::npos) return false;
    text.remove_prefix(found + parts_[i].size());
  }
  return text.ends_with(parts_.back());
}

const TrieNode* Children::Find(const Entry& entry) const {
  const auto of_key = keys.find(entry.key);
  if (of_key == keys.end()) return nullptr;
  const auto& [exact, patterns, any] = of_key->second;
  if (const auto found = exact.find(entry.value); found != exact.end()) return &found->second;
  // A value equal to the text of a pattern selects that pattern.
  const bool has_star = entry.value.find('*') != std::string_view::npos;
  for (const Pattern& pattern : patterns) {
    if (has_star && pattern.node.value == entry.value) return &pattern.node;
  }
  for (const Pattern& pattern : patterns) {
    if (pattern.glob.Matches(entry.value)) return &pattern.node;
  }
  return any.get();
}

const DomainGuide* Guide::Find(std::string_view domain) const {
  const auto found = domains.find(domain);
  return found == domains.end() ? nullptr : &found->second;
}

// Every entry must match: a limit applies only to descriptors that end at its node.
void Match(const DomainGuide& domain, std::span<const Entry> entries, TrieMatch& match) {
  match.target = nullptr;
  match.counter.clear();
  match.metric.clear();
  match.passed.clear();
  const Children* children = &domain.children;
  const TrieNode* node = nullptr;
  bool values_show = false;
  for (const Entry& entry : entries) {
    node = children == nullptr ? nullptr : children->Find(entry);
    if (node == nullptr) return;
    match.passed.push_back(node);
    AppendEntry(entry.key, node->share_threshold ? node->value : entry.value, match.counter);
    values_show |= node->value_to_metric;
    children = node->children.get();
  }
  if (node == nullptr || node->target == nullptr) return;
  match.target = node->target.get();
  DigestIfLong(match.counter);
  if (values_show || match.target->detailed_metric) NameMetric(entries, match);
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
  TrieMatch match;
  Match(*tree, entries, match);
  if (match.target == nullptr) return;
  counter = std::move(match.counter);
  attributes = {{kRuleAttribute, match.target->rule}, {kDescriptorAttribute, counter}};
}

}  // namespace sluice::envoy
