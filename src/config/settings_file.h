// The settings file: a YAML map with the settings, nested where keys have dots, and the callers.
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
