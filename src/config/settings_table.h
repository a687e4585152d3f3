// The table of settings: names in the three sources, default, description, and parser of each. A
// new setting is added here and in settings.h.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "config/settings.h"

namespace sluice {

// A setting without key and flag is a secret: it must not appear in a settings file or in the
// process list.
struct Setting {
  std::string_view key;
  std::string_view flag;
  std::string_view variable;
  std::string_view value;  // its name in --help
  std::string_view initial;
  std::string_view help;
  Result<void> (*set)(Settings&, std::string_view);
};

// In the order of --help.
std::span<const Setting> SettingsTable();

}  // namespace sluice
