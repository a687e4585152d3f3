// Parses the setting `callers`, which is a map, and thus only possible in a settings file.
#pragma once

#include <vector>

#include "config/config_value.h"
#include "core/caller.h"

namespace sluice {

// Reports mistakes; the result is then unusable.
std::vector<Caller> ParseCallers(const ConfigValue& value);

}  // namespace sluice
