// The YAML file of settings, as flat text values.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/caller.h"

namespace sluice {

struct FileSetting {
  std::string key;    // nested keys joined by dots: "redis.timeout"
  std::string value;  // as written
  std::string place;  // "file:line:column" of the value
};

struct SettingsFile {
  std::vector<FileSetting> settings;  // in the order of the file
  std::vector<Caller> callers;
  std::vector<std::string> mistakes;  // with positions: values that are not scalars
};

// Fails if the file cannot be read or is not YAML.
Result<SettingsFile> ReadSettingsFile(const std::string& path);

}  // namespace sluice
