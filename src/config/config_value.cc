#include "config/config_value.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/text.h"
#include "config/scalar_parser.h"
#include "core/format.h"
#include "match/rule.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

std::string Quoted(std::string_view text) {
  constexpr std::size_t kShown = 100;
  if (text.size() <= kShown) return fmt::format("\"{}\"", text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("\"{}…\"", text.substr(0, end));
}

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kScalar:
      return Quoted(node.text);
    case Kind::kSequence:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kNull:
    case Kind::kRefused:
      break;
  }
  return "nothing";
}

}  // namespace

std::string ConfigValue::path() const {
  if (parent_ == nullptr) return "";
  std::string path = parent_->path();
  if (key_.data() == nullptr) return fmt::format("{}[{}]", path, index_);
  if (!path.empty()) path += '.';
  return path.append(key_);
}

void ConfigValue::Report(std::string message) const {
  report_->errors.push_back({report_->file, node_->position, path(), std::move(message)});
}

void ConfigValue::Warn(std::string message) const {
  if (report_->warnings == nullptr) return;
  report_->warnings->push_back({report_->file, node_->position, path(), std::move(message)});
}

void ConfigValue::ReportFound(std::string_view allowed) const {
  if (node_->kind == Kind::kRefused) return;
  Report(fmt::format("found {}; allowed {}", Describe(*node_), allowed));
}

std::optional<std::string_view> ConfigValue::Text(std::string_view allowed) const {
  if (node_->kind == Kind::kScalar) return node_->text;
  ReportFound(allowed);
  return std::nullopt;
}

std::string ConfigValue::NonEmptyText(std::string_view allowed, std::size_t most) const {
  const auto text = Text(allowed);
  if (!text) return "";
  if (!text->empty() && text->size() <= most) return std::string(*text);
  ReportFound(allowed);
  return "";
}

std::vector<ConfigValue> ConfigValue::Items(std::string_view allowed) const {
  std::vector<ConfigValue> items;
  if (node_->kind != Kind::kSequence) {
    ReportFound(allowed);
    return items;
  }
  items.reserve(node_->items.size());
  for (const YamlNode& item : node_->items) items.push_back(At(items.size(), item));
  return items;
}

std::int64_t ConfigValue::Integer(std::int64_t least, std::int64_t most,
                                  std::string_view note) const {
  const auto number = ParseNumber<std::int64_t>(node_->text);
  const bool is_allowed =
      node_->kind == Kind::kScalar && number && *number >= least && *number <= most;
  if (is_allowed) return *number;
  ReportFound(fmt::format("is a whole number from {} to {}{}", least, most, note));
  return least;
}

std::optional<Duration> ConfigValue::Length(Duration least, Duration most) const {
  const std::string allowed =
      fmt::format("are durations from {} to {}", FormatDuration(least), FormatDuration(most));
  const auto text = Text(allowed);
  if (!text) return std::nullopt;
  const auto length = ParseDuration(*text);
  if (length && *length >= least && *length <= most) return *length;
  ReportFound(allowed);
  return std::nullopt;
}

std::string ConfigValue::Name() const {
  constexpr std::string_view kAllowed = "are 1 to 100 letters, digits, _, . and -";
  std::string name = NonEmptyText(kAllowed, 100);
  if (name.find_first_not_of(kNameCharacters) == name.npos) return name;
  ReportFound(kAllowed);
  return "";
}

std::size_t ConfigValue::WordOf(std::span<const std::string_view> words) const {
  const auto found =
      node_->kind == Kind::kScalar ? std::ranges::find(words, node_->text) : words.end();
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  ReportFound(fmt::format("are {}{}", fmt::join(words, ", "), DidYouMean(node_->text, words)));
  return 0;
}

ConfigMap::ConfigMap(const ConfigValue& value, std::span<const std::string_view> keys)
    : value_(value) {
  const auto known = [&] { return fmt::format("{}", fmt::join(keys, ", ")); };
  if (value.node().kind != Kind::kMap) {
    value.ReportFound("is a map of " + known());
    return;
  }
  ForEachPair(value, [&](const YamlNode& key, const ConfigValue&) {
    if (std::ranges::find(keys, key.text) != keys.end()) return;
    misspelled_.push_back(NearestWord(key.text, keys));
    value.At(key.text, key)
        .Report(fmt::format("unknown key; allowed are {}{}", known(), DidYouMean(key.text, keys)));
  });
}

std::optional<ConfigValue> ConfigMap::Find(std::string_view key) const {
  const YamlNode* found = value_.node().Find(key);
  if (found == nullptr) return std::nullopt;
  return value_.At(key, *found);
}

std::optional<ConfigValue> ConfigMap::Require(std::string_view key,
                                              std::string_view allowed) const {
  auto found = Find(key);
  const bool misspelled = std::ranges::find(misspelled_, key) != misspelled_.end();
  if (!found && !misspelled) ReportMissing(key, allowed);
  return found;
}

void ConfigMap::ReportMissing(std::string_view key, std::string_view allowed) const {
  if (value_.node().kind != Kind::kMap) return;
  const YamlNode absent{.position = value_.node().position};
  value_.At(key, absent).Report(fmt::format("is missing; allowed {}", allowed));
}

void ForEachPair(const ConfigValue& map,
                 const std::function<void(const YamlNode&, const ConfigValue&)>& visit) {
  std::unordered_set<std::string_view> seen;
  const auto& items = map.node().items;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const YamlNode& key = items[i];
    if (key.kind != Kind::kScalar) {
      map.At("?", key).ReportFound("is a text as the key");
    } else if (!seen.insert(key.text).second) {
      map.At(key.text, key).Report("found the key a second time; allowed only once");
    } else {
      visit(key, map.At(key.text, items[i + 1]));
    }
  }
}

}  // namespace sluice
