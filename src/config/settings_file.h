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

// In the order of the file. Fails if the file cannot be read, is no YAML, or holds anything other
// than scalars in maps.
Result<std::vector<FileSetting>> ReadSettingsFile(const std::string& path);

}  // namespace sluice
