// The YAML file of settings, as flat text values.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct FileSetting {
  std::string key;    // nested keys joined by dots: "redis.timeout"
  std::string value;  // as written
  std::string place;  // "file:line:column" of the value
};

struct SettingsFile {
  std::vector<FileSetting> settings;  // in the order of the file
  std::vector<std::string> mistakes;  // with their places: what is no scalar in maps
};

// Fails if the file cannot be read or is no YAML.
Result<SettingsFile> ReadSettingsFile(const std::string& path);

}  // namespace sluice
