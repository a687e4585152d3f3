// The settings file: a YAML map with the settings and the callers. The dots in the key of a setting
// separate nested maps.
#pragma once

#include <string>
#include <vector>

#include "config/diagnostic.h"
#include "core/caller.h"

namespace sluice {

struct SettingsFile {
  struct Value {
    std::string key;  // "redis.timeout"
    std::string text;
    Position position;
  };
  std::vector<Value> values;
  std::vector<Caller> callers;
  Diagnostics errors;  // mistakes, or why the file cannot be read
};

SettingsFile ReadSettingsFile(const std::string& path);

}  // namespace sluice
