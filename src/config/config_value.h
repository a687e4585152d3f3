// A YAML node with its path, for messages with a position. Readers report a mistake and continue
// with a default: a file with a mistake is not applied, but all its mistakes are reported at once.
//
// Values live on the stack. A child points to its parent, so it must not outlive the parent.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/yaml_reader.h"

namespace sluice {

// The mistakes in one file, and warnings about values that are valid, but probably unintended.
struct FileReport {
  std::string file;
  Diagnostics& errors;
  Diagnostics* warnings = nullptr;  // null: not collected
};

class ConfigValue {
 public:
  // The root of a file.
  ConfigValue(const YamlNode& node, FileReport& report) : node_(&node), report_(&report) {}

  // A child; `key` must outlive the value.
  ConfigValue At(std::string_view key, const YamlNode& node) const { return {*this, node, key, 0}; }
  ConfigValue At(std::size_t index, const YamlNode& node) const { return {*this, node, {}, index}; }

  const YamlNode& node() const { return *node_; }
  FileReport& report() const { return *report_; }

  // "rules[3].limits[0].window"
  std::string path() const;

  // Appends a mistake at this value.
  void Report(std::string message) const;

  // Appends a warning at this value.
  void Warn(std::string message) const;

  // Reports "found <this>; allowed <allowed>".
  void ReportFound(std::string_view allowed) const;

  // The text of a scalar. For other nodes, calls ReportFound(allowed) and returns nullopt.
  std::optional<std::string_view> Text(std::string_view allowed) const;

  // A text of 1 to `most` bytes. For anything else, calls ReportFound(allowed) and returns "".
  std::string NonEmptyText(std::string_view allowed, std::size_t most = std::string::npos) const;

  // The items of a list. For other nodes, calls ReportFound(allowed) and returns an empty list.
  std::vector<ConfigValue> Items(std::string_view allowed) const;

  // An integer from `least` to `most`. Reports anything else and returns `least`.
  std::int64_t Integer(std::int64_t least, std::int64_t most, std::string_view note = "") const;

  // A duration from `least` to `most`. Reports anything else and returns nullopt.
  std::optional<Duration> Length(Duration least, Duration most) const;

  // The name of a rule or limit: 1 to 100 letters, digits, "_", "." and "-". Reports anything else
  // and returns "".
  std::string Name() const;

  // The result of `parse` for the text. If `parse` fails, reports its error.
  template <typename T>
  std::optional<T> Parsed(Result<T> (*parse)(std::string_view), std::string_view allowed) const {
    const auto text = Text(allowed);
    if (!text) return std::nullopt;
    Result<T> parsed = parse(*text);
    if (parsed) return std::move(*parsed);
    Report(parsed.error().message);
    return std::nullopt;
  }

  // The choice whose word equals the text. Reports anything else and returns the first choice.
  template <typename T>
  T OneOf(std::initializer_list<std::pair<std::string_view, T>> choices) const {
    std::vector<std::string_view> words;
    for (const auto& choice : choices) words.push_back(choice.first);
    return (choices.begin() + WordOf(words))->second;
  }

  // The position of the value in `words`. Reports anything else and returns 0.
  std::size_t WordOf(std::span<const std::string_view> words) const;

 private:
  ConfigValue(const ConfigValue& parent, const YamlNode& node, std::string_view key,
              std::size_t index)
      : node_(&node), report_(parent.report_), parent_(&parent), key_(key), index_(index) {}

  const YamlNode* node_;
  FileReport* report_;
  const ConfigValue* parent_ = nullptr;
  std::string_view key_;  // empty for items of a list
  std::size_t index_ = 0;
};

// A map with a fixed set of keys. Unknown keys are reported with the nearest known key.
class ConfigMap {
 public:
  // Reports a mistake if `value` is not a map, and a mistake for each key that is not in `keys`.
  // `value` and the texts of `keys` must outlive this object.
  ConfigMap(const ConfigValue& value, std::span<const std::string_view> keys);
  ConfigMap(const ConfigValue& value, std::initializer_list<std::string_view> keys)
      : ConfigMap(value, std::span(keys.begin(), keys.size())) {}

  // Empty if the key is absent.
  std::optional<ConfigValue> Find(std::string_view key) const;

  // Like Find, but reports an absent key, unless an unknown key is probably a misspelling of `key`.
  std::optional<ConfigValue> Require(std::string_view key, std::string_view allowed) const;

  // Reports that `key` is missing. Does nothing if the value is not a map, because that has been
  // reported.
  void ReportMissing(std::string_view key, std::string_view allowed) const;

 private:
  const ConfigValue& value_;
  std::vector<std::string_view> misspelled_;  // known keys that resemble unknown keys
};

// Reports duplicate keys and keys that are not strings. Calls `visit` for every other pair.
// REQUIRES: `map` is a map.
void ForEachPair(const ConfigValue& map,
                 const std::function<void(const YamlNode& key, const ConfigValue& value)>& visit);

}  // namespace sluice
