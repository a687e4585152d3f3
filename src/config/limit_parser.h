// One item of `limits`: an algorithm with its parameters. A new algorithm is one function and one
// row of the table in the .cc.
#pragma once

#include "config/config_value.h"
#include "core/limit.h"

namespace sluice {

// Reports errors in `value`; the result is then unusable.
Limit ParseLimit(const ConfigValue& value);

}  // namespace sluice
