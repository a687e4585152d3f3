#include "envoy/rules/rule_file_parser.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "config/config_value.h"
#include "config/limit_parser.h"
#include "config/rule_parser.h"

namespace sluice::envoy {
namespace {

using NodeKind = YamlNode::Kind;

// A key without a value counts as absent.
std::optional<ConfigValue> Find(const ConfigMap& fields, std::string_view key) {
  auto found = fields.Find(key);
  if (found && found->node().kind == NodeKind::kNull) return std::nullopt;
  return found;
}

std::string ParseText(const ConfigMap& fields, std::string_view key) {
  const auto field = Find(fields, key);
  return field ? std::string(field->Text("is a text").value_or("")) : "";
}

bool ParseFlag(const ConfigMap& fields, std::string_view key) {
  const auto field = Find(fields, key);
  if (!field) return false;
  constexpr std::array<std::string_view, 6> kWords{"true", "yes", "on", "false", "no", "off"};
  const auto* const word = std::ranges::find(kWords, Lowercase(field->node().text));
  if (field->node().kind != NodeKind::kScalar || field->node().quoted || word == kWords.end()) {
    field->ReportFound("are true, false");
    return false;
  }
  return word < kWords.begin() + 3;
}

std::string ParseRequiredText(const ConfigMap& fields, std::string_view key,
                              std::string_view allowed) {
  const auto field = Find(fields, key);
  if (!field) {
    fields.ReportMissing(key, allowed);
    return "";
  }
  const auto text = field->Text(allowed);
  if (text && text->empty()) field->ReportFound(allowed);
  return std::string(text.value_or(""));
}

// The names of units in rule files.
constexpr std::span kUnits = std::span(kUnitNames).subspan(1);

std::string AllowedUnits() { return fmt::format("are {}", fmt::join(kUnits, ", ")); }

Unit ParseUnit(const ConfigValue& value) {
  const auto name = std::ranges::find(kUnits, Lowercase(value.node().text));
  if (value.node().kind == NodeKind::kScalar && name != kUnits.end()) {
    return static_cast<Unit>(name - kUnits.begin() + 1);
  }
  value.ReportFound(AllowedUnits() + DidYouMean(value.node().text, kUnits));
  return Unit::kUnknown;
}

void ParseReplaces(const ConfigValue& list, RateLimit& limit) {
  for (const ConfigValue& item : list.Items("is a list of maps such as {name: other}")) {
    const ConfigMap fields(item, {"name"});
    const std::string name = ParseRequiredText(fields, "name", "is the name of a limit");
    if (!name.empty() && name == limit.name) {
      item.At("name", *item.node().Find("name")).ReportFound("is the name of another limit");
    }
    limit.replaces.push_back(name);
  }
}

// A descriptor has only two amounts: its hits, which are the cost, and requests.
bool CountsOnlyHits(const RuleLimit& limit) {
  return std::ranges::all_of(limit.counts, [](const CountedAmount& it) {
    return it.name == CountedAmount::kCost || it.name == CountedAmount::kRequests;
  });
}

// Sluice's own limits, instead of a unit.
void ParseOwnLimits(const ConfigMap& fields, const ConfigValue& list, RateLimit& limit) {
  for (const std::string_view key : {"unit", "requests_per_unit", "unlimited"}) {
    if (const auto other = Find(fields, key)) other->ReportFound("only without limits");
  }
  constexpr std::string_view kAllowed = "is a list of limits";
  limit.limits = ParseLimitItems(list, kAllowed);
  for (std::size_t i = 0; i < limit.limits.size(); ++i) {
    const ConfigValue item = list.At(i, list.node().items[i]);
    if (TakesLeases(limit.limits[i].limit)) {
      item.Report("found concurrency, which needs leases; allowed are the other algorithms");
    }
    if (CountsOnlyHits(limit.limits[i])) continue;
    item.At("counts", *item.node().Find("counts"))
        .Report(
            "found an amount that descriptors do not have; allowed are cost (the hits) and "
            "requests");
  }
  if (limit.limits.empty() && list.node().kind == NodeKind::kSequence) {
    list.Report("found no limit; allowed is at least one");
  }
}

void ParseUnitOf(const ConfigMap& fields, RateLimit& limit) {
  const auto unit = Find(fields, "unit");
  if (limit.unlimited) {
    if (unit) unit->ReportFound("only without unlimited");
  } else if (unit) {
    limit.unit = ParseUnit(*unit);
  } else {
    fields.ReportMissing("unit", AllowedUnits());
  }
}

// Accepts the numbers of Envoy's service: 16, 0x10, 0o20, 0b1_0000. Refuses 020, which that service
// reads as 16.
std::uint32_t ParseRequestsPerUnit(const ConfigValue& value) {
  std::string digits = Lowercase(value.node().text);
  if (!digits.starts_with('_')) std::erase(digits, '_');
  int base = 10;
  if (digits.starts_with("0x")) base = 16;
  if (digits.starts_with("0o")) base = 8;
  if (digits.starts_with("0b")) base = 2;
  if (base != 10) digits.erase(0, 2);
  const bool is_octal = base == 10 && digits.size() > 1 && digits.front() == '0';
  const auto number = ParseNumber<std::uint32_t>(digits, base);
  const bool is_plain = value.node().kind == NodeKind::kScalar && !value.node().quoted;
  if (number && is_plain && !is_octal) return *number;
  value.ReportFound(is_octal ? "is a number that does not begin with 0"
                             : "is a whole number from 0 to 4294967295, without quotes");
  return 0;
}

RateLimit ParseRateLimit(const ConfigValue& value) {
  const ConfigMap fields(value, {"unit", "requests_per_unit", "unlimited", "name", "replaces",
                                 "limits", "on_store_failure"});
  RateLimit limit;
  if (value.node().kind != NodeKind::kMap) return limit;
  limit.name = ParseText(fields, "name");
  limit.unlimited = ParseFlag(fields, "unlimited");
  if (const auto requests = Find(fields, "requests_per_unit")) {
    limit.requests_per_unit = ParseRequestsPerUnit(*requests);
  }
  if (const auto limits = Find(fields, "limits")) {
    ParseOwnLimits(fields, *limits, limit);
  } else {
    ParseUnitOf(fields, limit);
  }
  if (const auto replaces = Find(fields, "replaces")) ParseReplaces(*replaces, limit);
  if (const auto failure = Find(fields, "on_store_failure")) {
    limit.on_store_failure = ParseOnStoreFailure(*failure);
  }
  return limit;
}

void CheckMetadata(const ConfigValue& value) {
  if (value.node().kind == NodeKind::kSequence) {
    for (const ConfigValue& item : value.Items("")) CheckMetadata(item);
  } else if (value.node().kind == NodeKind::kMap) {
    ForEachPair(value, [](const YamlNode&, const ConfigValue& item) { CheckMetadata(item); });
  }
}

// "on line 12", or "at descriptors[3]" if the nodes have no positions.
std::string PlaceOf(const YamlNode& item, const ConfigValue& list) {
  if (item.position.line > 0) return fmt::format("on line {}", item.position.line);
  return fmt::format("at {}[{}]", list.path(), &item - list.node().items.data());
}

std::vector<Descriptor> ParseDescriptors(const ConfigValue& list);

Descriptor ParseDescriptor(const ConfigValue& value) {
  const ConfigMap fields(value,
                         {"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
                          "detailed_metric", "value_to_metric", "share_threshold", "metadata"});
  Descriptor descriptor;
  if (value.node().kind != NodeKind::kMap) return descriptor;
  descriptor.file = value.report().file;
  descriptor.position = value.node().position;
  descriptor.key = ParseRequiredText(fields, "key", "is the key of an entry");
  descriptor.value = ParseText(fields, "value");
  descriptor.shadow_mode = ParseFlag(fields, "shadow_mode");
  descriptor.quota_mode = ParseFlag(fields, "quota_mode");
  descriptor.detailed_metric = ParseFlag(fields, "detailed_metric");
  descriptor.value_to_metric = ParseFlag(fields, "value_to_metric");
  descriptor.share_threshold = ParseFlag(fields, "share_threshold");
  if (descriptor.share_threshold && !descriptor.is_wildcard()) {
    Find(fields, "share_threshold")->Report("needs a value with *");
  }
  if (const auto limit = Find(fields, "rate_limit")) descriptor.rate_limit = ParseRateLimit(*limit);
  if (const auto list = Find(fields, "descriptors")) {
    descriptor.descriptors = ParseDescriptors(*list);
  }
  if (const auto metadata = Find(fields, "metadata")) {
    if (metadata->node().kind != NodeKind::kMap) metadata->ReportFound("is a map");
    CheckMetadata(*metadata);
    descriptor.metadata = metadata->node();
  }
  return descriptor;
}

std::vector<Descriptor> ParseDescriptors(const ConfigValue& list) {
  std::vector<Descriptor> descriptors;
  std::map<std::pair<std::string, std::string>, const YamlNode*> first;
  for (const ConfigValue& item : list.Items("is a list of descriptors")) {
    Descriptor descriptor = ParseDescriptor(item);
    const auto [known, is_new] =
        first.try_emplace({descriptor.key, descriptor.value}, &item.node());
    if (!is_new && !descriptor.key.empty()) {
      item.Report(
          fmt::format("found the key \"{}\" with the value \"{}\", as {}; allowed only once",
                      descriptor.key, descriptor.value, PlaceOf(*known->second, list)));
    }
    descriptors.push_back(std::move(descriptor));
  }
  return descriptors;
}

}  // namespace

std::optional<RuleTree> ParseRuleDocument(const RuleDocument& document, Diagnostics& errors) {
  constexpr std::string_view kDomains = "is a name of 1 to 255 bytes";
  FileReport report{document.name, errors};
  const ConfigValue root(document.root, report);
  const ConfigMap fields(root, {"domain", "descriptors", "all_or_nothing"});
  if (document.root.kind != NodeKind::kMap) return std::nullopt;
  RuleTree tree;
  tree.file = document.name;
  tree.domain = ParseRequiredText(fields, "domain", kDomains);
  if (const auto domain = Find(fields, "domain")) tree.domain_position = domain->node().position;
  if (tree.domain.size() > 255) Find(fields, "domain")->ReportFound(kDomains);
  tree.all_or_nothing = ParseFlag(fields, "all_or_nothing");
  if (const auto list = Find(fields, "descriptors")) tree.descriptors = ParseDescriptors(*list);
  return tree;
}

}  // namespace sluice::envoy
