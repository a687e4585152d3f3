// Documents state the same settings and defaults as the table of settings.
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "config/settings.h"
#include "config/settings_file.h"
#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

const std::filesystem::path kSource = SLUICE_SOURCE_DIR;

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> KeysOf(const std::filesystem::path& settings_file) {
  std::set<std::string> keys;
  for (const auto& value : ReadSettingsFile(settings_file).values) keys.insert(value.key);
  return keys;
}

// The example file has every setting except secrets, with its default. A setting without a default
// may be in a comment.
TEST(SettingsDocumented, ExampleFile_HasEverySettingWithItsDefault) {
  const std::filesystem::path example = kSource / "config/sluice.yaml";
  std::string text = Read(example);
  RE2::GlobalReplace(&text, "(?m)^( *)# ( *[a-z_]+:( .*)?)$", "\\1\\2");
  const test::TempDir dir;
  const std::set<std::string> given = KeysOf(example);
  const std::set<std::string> with_comments = KeysOf(dir.Write("all.yaml", text));
  Settings settings;
  for (const Setting& setting : SettingsTable(settings)) {
    if (setting.is_secret) continue;
    const auto& keys = setting.initial == "none" ? with_comments : given;
    EXPECT_TRUE(keys.contains(std::string(setting.key))) << setting.key;
  }
  const std::vector<std::string> file{"--config", example};
  const auto read = ReadSettings(file, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, *ReadSettings({}, {}));
}

TEST(SettingsDocumented, Help_HasEverySettingWithItsDefault) {
  const std::string help = DescribeSettings();
  Settings settings;
  for (const Setting& setting : SettingsTable(settings)) {
    if (setting.is_secret) continue;
    const std::string line =
        fmt::format("{} {}  ({}, in the file {}; default {})", setting.flag, setting.value,
                    setting.variable, setting.key, setting.initial);
    EXPECT_NE(help.find(line), help.npos) << line;
  }
}

TEST(SettingsDocumented, Docs_NameOnlyKnownVariables) {
  std::set<std::string> known{"SLUICE_CONFIG", "SLUICE_ADDR",         "SLUICE_TOKEN",
                              "SLUICE_",       "SLUICE_REDIS_SERVER", "SLUICE_TOKEN_FILE"};
  Settings settings;
  for (const Setting& setting : SettingsTable(settings)) known.insert(setting.variable);
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
