// The key `counts` of a limit.
//
// Thread-safe.
#pragma once

#include "config/config_value.h"
#include "match/rule.h"

namespace sluice {

// Parses a name, a list of names, or a map of names to weights. If it reports a mistake, the result
// is unusable. Warns about names that are similar to `cost` or `requests`.
Counts ParseCounts(const ConfigValue& value);

}  // namespace sluice
