#include "config/caller_parser.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/diagnostic.h"
#include "config/scalar_parser.h"

namespace sluice {
namespace {

constexpr std::array kRights{
    std::pair<std::string_view, CallerRight>{"consume", CallerRight::kConsume},
    std::pair<std::string_view, CallerRight>{"peek", CallerRight::kPeek},
    std::pair<std::string_view, CallerRight>{"charge", CallerRight::kCharge},
    std::pair<std::string_view, CallerRight>{"refund", CallerRight::kRefund},
    std::pair<std::string_view, CallerRight>{"lease", CallerRight::kLease},
    std::pair<std::string_view, CallerRight>{"metrics", CallerRight::kMetrics},
};

constexpr std::array<std::string_view, 4> kKeys = {"token_file", "identities", "domains", "may"};

class CallerParser {
 public:
  CallerParser(const std::string& path, std::vector<std::string>& mistakes)
      : path_(path), mistakes_(mistakes) {}

  Caller Parse(const std::string& name, const YAML::Node& node) {
    caller_ = {.name = name};
    place_ = "callers." + name;
    if (!node.IsMap()) {
      Mistake(node, fmt::format("allowed is a map with {}", fmt::join(kKeys, ", ")));
      return caller_;
    }
    for (const auto& entry : node) ParseEntry(entry.first.Scalar(), entry.second);
    CheckWhole(node);
    return caller_;
  }

 private:
  void ParseEntry(const std::string& key, const YAML::Node& value) {
    if (key == "token_file") {
      if (!value.IsScalar()) return Mistake(value, "token_file: allowed is a file");
      caller_.token_file = value.Scalar();
    } else if (key == "identities") {
      for (const std::string& text : Texts(key, value)) AddIdentity(text, value);
    } else if (key == "domains") {
      caller_.domains = Texts(key, value);
    } else if (key == "may") {
      caller_.rights = {};
      for (const std::string& word : Texts(key, value)) AddRight(word, value);
    } else {
      Mistake(value, fmt::format("no such setting \"{}\"{}", key, DidYouMean(key, kKeys)));
    }
  }

  // A list, or a single text.
  std::vector<std::string> Texts(const std::string& key, const YAML::Node& node) {
    std::vector<std::string> texts;
    if (node.IsScalar()) texts.push_back(node.Scalar());
    if (node.IsSequence()) {
      for (const auto& item : node) texts.push_back(item.IsScalar() ? item.Scalar() : "");
    }
    const bool complete =
        !texts.empty() && std::find(texts.begin(), texts.end(), "") == texts.end();
    if (!complete) Mistake(node, key + ": allowed is a list of texts that are not empty");
    return texts;
  }

  void AddIdentity(const std::string& text, const YAML::Node& node) {
    const auto identity = ParseIdentity(text);
    if (!identity) Mistake(node, "identities: " + identity.error().message);
    caller_.identities.push_back(identity ? *identity : text);
  }

  void AddRight(const std::string& word, const YAML::Node& node) {
    const auto found = std::find_if(kRights.begin(), kRights.end(),
                                    [&](const auto& it) { return it.first == word; });
    if (found != kRights.end()) return caller_.rights.Add(found->second);
    std::vector<std::string_view> words;
    for (const auto& it : kRights) words.push_back(it.first);
    Mistake(node, fmt::format("may: found \"{}\"; allowed are {}", word, fmt::join(words, ", ")));
  }

  void CheckWhole(const YAML::Node& node) {
    if (caller_.token_file.empty() && caller_.identities.empty()) {
      Mistake(node, "needs token_file or identities");
    }
    const bool metrics_alone = caller_.rights == CallerRights{CallerRight::kMetrics};
    if (caller_.domains.empty() && !metrics_alone) {
      Mistake(node, "needs domains, such as [shop], or [\"*\"] for all");
    }
  }

  void Mistake(const YAML::Node& node, std::string_view what) {
    mistakes_.push_back(fmt::format("{}:{}:{}: {}: {}", path_, node.Mark().line + 1,
                                    node.Mark().column + 1, place_, what));
  }

  const std::string& path_;
  std::vector<std::string>& mistakes_;
  std::string place_;
  Caller caller_;
};

}  // namespace

std::vector<Caller> ParseCallers(const YAML::Node& node, const std::string& path,
                                 std::vector<std::string>& mistakes) {
  std::vector<Caller> callers;
  if (!node.IsMap() || node.size() == 0) {
    mistakes.push_back(fmt::format("{}:{}:{}: callers: allowed is a map of at least one caller",
                                   path, node.Mark().line + 1, node.Mark().column + 1));
    return callers;
  }
  CallerParser parser(path, mistakes);
  for (const auto& entry : node)
    callers.push_back(parser.Parse(entry.first.Scalar(), entry.second));
  return callers;
}

}  // namespace sluice
