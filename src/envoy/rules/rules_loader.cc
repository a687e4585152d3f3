#include "envoy/rules/rules_loader.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace sluice::envoy {
namespace {

// Parses documents, and merges the trees of each domain.
class Merger {
 public:
  Merger(bool merge, LoadedTrees& loaded) : merge_(merge), loaded_(loaded) {}

  void Add(const RuleDocument& document) {
    auto tree = ParseRuleDocument(document, loaded_.errors);
    if (!tree || tree->domain.empty()) return;  // reported
    const auto [at, is_new] = domains_.try_emplace(tree->domain);
    Known& known = at->second;
    if (is_new) {
      known.tree = loaded_.trees.size();
      loaded_.trees.push_back({.domain = tree->domain,
                               .file = tree->file,
                               .domain_position = tree->domain_position,
                               .descriptors = {}});
    } else if (!merge_) {
      loaded_.errors.push_back(
          {tree->file, tree->domain_position, "domain",
           fmt::format("found \"{}\", which {} has too; allowed is one file per domain, unless "
                       "domains are merged",
                       tree->domain, loaded_.trees[known.tree].file)});
      return;
    }
    Merge(std::move(*tree), known);
  }

 private:
  struct Known {
    std::size_t tree = 0;
    std::map<std::pair<std::string, std::string>, std::string> places;  // key, value → file:line
  };

  void Merge(RuleTree from, Known& known) {
    RuleTree& to = loaded_.trees[known.tree];
    to.all_or_nothing |= from.all_or_nothing;
    for (Descriptor& it : from.descriptors) {
      const auto [place, is_new] = known.places.try_emplace(
          {it.key, it.value}, fmt::format("{}:{}", it.file, it.position.line));
      // The parser has reported duplicates within a file.
      if (!is_new && !place->second.starts_with(it.file + ":")) {
        loaded_.errors.push_back(
            {it.file, it.position, "descriptors",
             fmt::format("found the key \"{}\" with the value \"{}\", as in {}; allowed only once",
                         it.key, it.value, place->second)});
      }
      to.descriptors.push_back(std::move(it));
    }
  }

  const bool merge_;
  LoadedTrees& loaded_;
  std::map<std::string, Known> domains_;
};

// With all_or_nothing, if one limit denies a request, the other limits take back the hits that they
// have charged. Reports limits that cannot do this.
void ReportKeepers(const std::vector<Descriptor>& descriptors, Diagnostics& errors) {
  for (const Descriptor& it : descriptors) {
    if (it.rate_limit &&
        !std::ranges::all_of(it.rate_limit->limits, RefundsInFull, &RuleLimit::limit)) {
      errors.push_back(
          {it.file, it.position, "descriptors",
           fmt::format("the key \"{}\" has a leaky_bucket with delay or a token_bucket "
                       "with warmup, which cannot take hits back; with "
                       "all_or_nothing, only the other limits are allowed",
                       it.key)});
    }
    ReportKeepers(it.descriptors, errors);
  }
}

}  // namespace

RuleTexts ReadRuleFiles(const std::string& directory) {
  return sluice::ReadRuleFiles(directory, kRuleFiles);
}

LoadedTrees ParseRules(RuleTexts texts, bool merge, std::span<const RuleDocument> documents) {
  LoadedTrees loaded{.trees = {}, .errors = std::move(texts.errors)};
  Merger merger(merge, loaded);
  for (RuleFile& file : texts.files) {
    const RuleDocument document{
        .name = file.name,
        .root = ReadYaml(file.name, file.text, {}, loaded.errors, YamlAliases::kResolved)};
    file.text = std::string();
    if (document.root.kind != YamlNode::Kind::kRefused) merger.Add(document);
  }
  for (const RuleDocument& document : documents) merger.Add(document);
  for (const RuleTree& tree : loaded.trees) {
    if (tree.all_or_nothing) ReportKeepers(tree.descriptors, loaded.errors);
  }
  SortByPosition(loaded.errors);
  return loaded;
}

}  // namespace sluice::envoy
