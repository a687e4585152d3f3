#include "config/counts_parser.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

constexpr std::size_t kMaxCounted = 16;  // the maximum number of amounts in a request

std::string ParseName(const ConfigValue& value, std::string_view name) {
  static constexpr std::array<std::string_view, 2> kOwn{CountedAmount::kCost,
                                                        CountedAmount::kRequests};
  if (name.empty() || name.size() > 255) {
    value.Report(fmt::format("found a name of {} bytes; allowed are 1 to 255", name.size()));
  } else if (std::ranges::find(kOwn, name) == kOwn.end()) {
    const std::string_view guess = NearestWord(name, kOwn);
    if (guess.starts_with(name.front())) {
      value.Warn(fmt::format("\"{}\" is an amount that callers must give; did you mean \"{}\"?",
                             name, guess));
    }
  }
  return std::string(name);
}

void ParseList(const ConfigValue& value, Counts& counts) {
  for (const ConfigValue& item : value.Items("is a list of names")) {
    const auto name = item.Text("is the name of an amount, such as requests");
    if (!name) continue;
    const bool is_known = std::ranges::find(counts, *name, &CountedAmount::name) != counts.end();
    if (is_known) item.Report(fmt::format("found \"{}\" a second time; allowed only once", *name));
    counts.push_back({.name = ParseName(item, *name)});
  }
}

void ParseMap(const ConfigValue& value, Counts& counts) {
  ForEachPair(value, [&](const YamlNode& key, const ConfigValue& weight) {
    counts.push_back({.name = ParseName(value.At(key.text, key), key.text),
                      .weight = weight.Integer(1, CountedAmount::kMaxWeight)});
  });
}

}  // namespace

Counts ParseCounts(const ConfigValue& value) {
  constexpr std::string_view kAllowed =
      "is the name of an amount (such as requests), a list of 1 to 16 names, or a map of 1 to 16 "
      "names with weights";
  const YamlNode& node = value.node();
  Counts counts;
  if (node.kind == Kind::kScalar) {
    counts.push_back({.name = ParseName(value, node.text)});
  } else if (node.kind != Kind::kSequence && node.kind != Kind::kMap) {
    value.ReportFound(kAllowed);
  } else {
    const bool is_list = node.kind == Kind::kSequence;
    const std::size_t size = is_list ? node.items.size() : node.items.size() / 2;
    if (size == 0 || size > kMaxCounted) {
      value.Report(fmt::format("found {} names; allowed {}", size, kAllowed));
    }
    is_list ? ParseList(value, counts) : ParseMap(value, counts);
  }
  std::ranges::sort(counts, {}, &CountedAmount::name);
  const CountedAmount cost{.name = std::string(CountedAmount::kCost)};
  if (counts.size() == 1 && counts.front() == cost) counts.clear();
  return counts;
}

}  // namespace sluice
