#include "config/settings_file.h"

#include "base/file.h"
#include "config/caller_parser.h"
#include "config/config_value.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

void ReadMap(const ConfigValue& map, SettingsFile& file) {
  ForEachPair(map, [&](const YamlNode&, const ConfigValue& value) {
    const std::string key = value.path();
    if (key == "callers") {
      file.callers = ParseCallers(value);
    } else if (value.node().kind == Kind::kMap) {
      ReadMap(value, file);
    } else if (const auto text = value.Text("is a single value")) {
      file.values.push_back({key, std::string(*text), value.node().position});
    }
  });
}

}  // namespace

SettingsFile ReadSettingsFile(const std::string& path) {
  SettingsFile file;
  const auto text = ReadFile(path);
  if (!text) {
    file.errors.push_back({"", {}, "", text.error().message});
    return file;
  }
  FileReport report{path, file.errors};
  const YamlNode root = ReadYaml(path, *text, {}, file.errors);
  const ConfigValue document(root, report);
  if (root.kind == Kind::kMap) {
    ReadMap(document, file);
  } else if (root.kind != Kind::kNull) {
    document.ReportFound("is a map of settings");
  }
  SortByPosition(file.errors);
  return file;
}

}  // namespace sluice
