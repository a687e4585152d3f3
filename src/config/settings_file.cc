#include "config/settings_file.h"

#include <yaml-cpp/yaml.h>

#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "config/caller_parser.h"

namespace sluice {
namespace {

std::string Place(const std::string& path, const YAML::Mark& mark) {
  return fmt::format("{}:{}:{}", path, mark.line + 1, mark.column + 1);
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
  try {
    const YAML::Node root = YAML::Load(*text);
    if (!root.IsMap() && !root.IsNull()) {
      return InvalidArgument(Place(path, root.Mark()) +
                             ": found no map; allowed is a map of settings");
    }
    Flattener flattener(path);
    if (root.IsMap()) flattener.Flatten(root, "");
    return flattener.Take();
  } catch (const YAML::Exception& error) {
    return InvalidArgument(Place(path, error.mark) + ": not YAML: " + error.msg);
  }
}

}  // namespace sluice
