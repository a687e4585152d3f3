// One item of `rules`.
#pragma once

#include <string>

#include "config/config_value.h"
#include "match/rule.h"

namespace sluice {

// Reports what is wrong with `value`; then the rule is of no use, but its name may be.
Rule ParseRule(const ConfigValue& value);

// The name of an attribute: 1 to 255 bytes. Empty if it is not one.
std::string ParseAttributeName(const ConfigValue& value);

}  // namespace sluice
