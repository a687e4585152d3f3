#include "config/settings_file.h"

#include <yaml-cpp/yaml.h>

#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

std::string Place(const std::string& path, const YAML::Mark& mark) {
  return fmt::format("{}:{}:{}", path, mark.line + 1, mark.column + 1);
}

class Flattener {
 public:
  explicit Flattener(const std::string& path) : path_(path) {}

  Result<void> Flatten(const YAML::Node& map, const std::string& prefix) {
    for (const auto& entry : map) {
      const std::string key = prefix + entry.first.as<std::string>();
      const YAML::Node& value = entry.second;
      if (value.IsMap()) {
        if (auto flat = Flatten(value, key + "."); !flat) return flat;
      } else if (value.IsScalar()) {
        settings_.push_back({key, value.Scalar(), Place(path_, value.Mark())});
      } else {
        return InvalidArgument(fmt::format("{}: {}: found {}; allowed is a single value",
                                           Place(path_, entry.first.Mark()), key,
                                           value.IsNull() ? "nothing" : "a list"));
      }
    }
    return {};
  }

  std::vector<FileSetting> Take() { return std::move(settings_); }

 private:
  const std::string& path_;
  std::vector<FileSetting> settings_;
};

}  // namespace

Result<std::vector<FileSetting>> ReadSettingsFile(const std::string& path) {
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return std::vector<FileSetting>{};
    if (!root.IsMap()) {
      return InvalidArgument(Place(path, root.Mark()) + ": found no map of settings");
    }
    Flattener flattener(path);
    if (auto flat = flattener.Flatten(root, ""); !flat) return flat.error();
    return flattener.Take();
  } catch (const YAML::BadFile&) {
    return InvalidArgument(path + ": cannot be read");
  } catch (const YAML::Exception& error) {
    return InvalidArgument(Place(path, error.mark) + ": " + error.msg);
  }
}

}  // namespace sluice
