#include "config/settings_file.h"

#include <yaml-cpp/yaml.h>

#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "config/caller_parser.h"
#include "config/yaml_syntax.h"

namespace sluice {
namespace {

std::string Place(const std::string& path, const YAML::Mark& mark) {
  return fmt::format("{}:{}:{}", path, mark.line + 1, mark.column + 1);
}

// More than any setting needs. An alias within its own node would recurse without end.
constexpr int kDeepest = 16;

// Reports keys that occur twice in a map: one of the two would have no effect.
void CheckKeys(const YAML::Node& node, const std::string& path, std::vector<std::string>& mistakes,
               int depth = 0) {
  if (depth > kDeepest) throw YAML::RepresentationException(node.Mark(), "nested too deeply");
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const YAML::Node& value = node.IsMap() ? entry.second : entry;
    CheckKeys(value, path, mistakes, depth + 1);
    if (!node.IsMap() || seen.insert(entry.first.Scalar()).second) continue;
    mistakes.push_back(fmt::format("{}: {}: found the key a second time; allowed is once",
                                   Place(path, entry.first.Mark()), entry.first.Scalar()));
  }
}

class Flattener {
 public:
  explicit Flattener(const std::string& path) : path_(path) {}

  void Flatten(const YAML::Node& map, const std::string& prefix) {
    for (const auto& entry : map) {
      const std::string key = prefix + entry.first.Scalar();
      const YAML::Node& value = entry.second;
      if (key == "callers") {
        file_.callers = ParseCallers(value, path_, file_.mistakes);
      } else if (value.IsMap()) {
        Flatten(value, key + ".");
      } else if (value.IsScalar()) {
        file_.settings.push_back({key, value.Scalar(), Place(path_, value.Mark())});
      } else {
        file_.mistakes.push_back(fmt::format("{}: {}: found {}; allowed is a single value",
                                             Place(path_, entry.first.Mark()), key,
                                             value.IsNull() ? "nothing" : "a list"));
      }
    }
  }

  SettingsFile Take() { return std::move(file_); }

 private:
  const std::string& path_;
  SettingsFile file_;
};

}  // namespace

Result<SettingsFile> ReadSettingsFile(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text) return text.error();
  if (const auto wrong = FindYamlSyntaxError(*text)) {
    return InvalidArgument(fmt::format("{}:{}:{}: {}", path, wrong->position.line,
                                       wrong->position.column, wrong->message));
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(*text);
    const YAML::Node root = documents.empty() ? YAML::Node() : documents.front();
    if (documents.size() > 1) {
      return InvalidArgument(Place(path, documents[1].Mark()) +
                             ": found a second document; allowed is one in a file");
    }
    if (!root.IsMap() && !root.IsNull()) {
      return InvalidArgument(Place(path, root.Mark()) +
                             ": found no map; allowed is a map of settings");
    }
    Flattener flattener(path);
    std::vector<std::string> repeated;
    CheckKeys(root, path, repeated);
    if (root.IsMap()) flattener.Flatten(root, "");
    SettingsFile file = flattener.Take();
    file.mistakes.insert(file.mistakes.begin(), repeated.begin(), repeated.end());
    return file;
  } catch (const YAML::Exception& error) {
    return InvalidArgument(Place(path, error.mark) + ": not YAML: " + error.msg);
  }
}

}  // namespace sluice
