#include "config/settings_file.h"

#include "base/file.h"
#include "config/config_value.h"
#include "config/scalar_parser.h"

namespace sluice {
namespace {

using Kind = YamlNode::Kind;

constexpr std::string_view kTexts =
    "is a text or a list of at least one text; a text must not be empty";

// Calls `visit` for each item of a list, or for a single text.
template <typename Visit>
void ForEachText(const ConfigValue& value, const Visit& visit) {
  if (value.node().kind == Kind::kScalar) return visit(value);
  const std::vector<ConfigValue> items = value.Items(kTexts);
  if (items.empty() && value.node().kind == Kind::kSequence) value.ReportFound(kTexts);
  for (const ConfigValue& item : items) visit(item);
}

CallerRights ParseRights(const ConfigValue& value) {
  CallerRights rights;
  ForEachText(value, [&](const ConfigValue& item) {
    rights.Add(item.OneOf<CallerRight>({{"consume", CallerRight::kConsume},
                                        {"peek", CallerRight::kPeek},
                                        {"charge", CallerRight::kCharge},
                                        {"refund", CallerRight::kRefund},
                                        {"lease", CallerRight::kLease},
                                        {"metrics", CallerRight::kMetrics}}));
  });
  return rights;
}

Caller ParseCaller(std::string_view name, const ConfigValue& value) {
  const ConfigMap fields(value, {"token_file", "identities", "domains", "may"});
  Caller caller{.name = std::string(name)};
  const auto token_file = fields.Find("token_file");
  const auto identities = fields.Find("identities");
  const auto domains = fields.Find("domains");
  if (token_file) caller.token_file = token_file->NonEmptyText("is a file");
  if (identities) {
    ForEachText(*identities, [&](const ConfigValue& item) {
      caller.identities.push_back(item.Parsed(ParseIdentity, kTexts).value_or(""));
    });
  }
  if (domains) {
    ForEachText(*domains, [&](const ConfigValue& item) {
      caller.domains.push_back(item.NonEmptyText(kTexts));
    });
  }
  if (const auto may = fields.Find("may")) caller.rights = ParseRights(*may);
  if (value.node().kind != Kind::kMap) return caller;
  if (!token_file && !identities) value.Report("needs token_file or identities");
  if (!domains && caller.rights != CallerRights{CallerRight::kMetrics}) {
    value.Report("needs domains, such as [shop], or [\"*\"] for all");
  }
  return caller;
}

std::vector<Caller> ParseCallers(const ConfigValue& value) {
  std::vector<Caller> callers;
  if (value.node().kind != Kind::kMap || value.node().items.empty()) {
    value.ReportFound("is a map of at least one caller");
    return callers;
  }
  ForEachPair(value, [&](const YamlNode& name, const ConfigValue& caller) {
    callers.push_back(ParseCaller(name.text, caller));
  });
  return callers;
}

void ReadMap(const ConfigValue& map, SettingsFile& file) {
  ForEachPair(map, [&](const YamlNode&, const ConfigValue& value) {
    const std::string key = value.path();
    if (key == "callers") {
      file.callers = ParseCallers(value);
    } else if (value.node().kind == Kind::kMap) {
      ReadMap(value, file);
    } else if (const auto text = value.Text("is a single value or a map of settings")) {
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
