// All documents state the same defaults as the table of settings.
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "config/settings_table.h"

namespace sluice {
namespace {

const std::filesystem::path kSource = SLUICE_SOURCE_DIR;

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(SettingsDocumented, Struct_StartsWithTheDefaultsOfTheTable) {
  for (const Setting& setting : SettingsTable()) {
    if (setting.initial == "none") continue;
    Settings settings;
    ASSERT_TRUE(setting.set(settings, setting.initial)) << setting.variable;
    EXPECT_EQ(settings, Settings{}) << setting.variable << " is not " << setting.initial;
  }
}

// Those of Envoy's service are on a separate page.
TEST(SettingsDocumented, Tables_HaveARowForEachAndNoOther) {
  const std::vector<std::string> lines =
      Lines(Read(kSource / "README.md") + Read(kSource / "docs/envoy.md"));
  for (const Setting& setting : SettingsTable()) {
    if (setting.flag.empty()) continue;
    const std::string row =
        fmt::format("| `{} {}` | `{}` | `{}` | {} | ", setting.flag, setting.value,
                    setting.variable, setting.key, setting.initial);
    EXPECT_EQ(std::ranges::count_if(lines, [&](const auto& line) { return line.starts_with(row); }),
              1)
        << row;
  }
  const auto rows = std::ranges::count_if(lines, [](const std::string& line) {
    return line.starts_with("| `--") && !line.starts_with("| `--config");
  });
  const auto flags = std::ranges::count_if(
      SettingsTable(), [](const Setting& setting) { return !setting.flag.empty(); });
  EXPECT_EQ(rows, flags);
}

TEST(SettingsDocumented, ExampleFile_NamesEach) {
  const std::string example = Read(kSource / "config/sluice.yaml");
  for (const Setting& setting : SettingsTable()) {
    const std::string key(setting.key.substr(setting.key.rfind('.') + 1));
    if (key.empty()) continue;
    EXPECT_TRUE(RE2::PartialMatch(example, "(?m)^[# ]*" + key + ":")) << setting.key;
  }
}

TEST(SettingsDocumented, Help_NamesEachWithItsDefault) {
  const std::string help = DescribeSettings();
  for (const Setting& setting : SettingsTable()) {
    if (setting.flag.empty()) continue;
    const std::string line =
        fmt::format("{} {}  ({}, in the file {}; default {})", setting.flag, setting.value,
                    setting.variable, setting.key, setting.initial);
    EXPECT_NE(help.find(line), help.npos) << line;
  }
}

TEST(SettingsDocumented, Docs_NameNoOtherVariable) {
  std::set<std::string> known{"SLUICE_CONFIG", "SLUICE_ADDR", "SLUICE_TOKEN", "SLUICE_",
                              "SLUICE_REDIS_SERVER"};
  for (const Setting& setting : SettingsTable()) known.emplace(setting.variable);
  std::vector<std::filesystem::path> files{kSource / "README.md", kSource / "config/sluice.yaml"};
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "docs")) {
    files.push_back(entry.path());
  }
  for (const auto& file : files) {
    const std::string text = Read(file);
    re2::StringPiece rest(text);
    for (std::string name; RE2::FindAndConsume(&rest, "(SLUICE_[A-Z_]*)", &name);) {
      EXPECT_TRUE(known.contains(name)) << file << ": " << name;
    }
  }
}

}  // namespace
}  // namespace sluice
