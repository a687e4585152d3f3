// One item of `limits`: an algorithm with its parameters. A new algorithm is one function and one
// row of the table in the .cc.
#pragma once

#include "config/config_value.h"
#include "core/limit.h"

namespace sluice {

// Reports what is wrong with `value`; then the limit is of no use.
Limit ParseLimit(const ConfigValue& value);

}  // namespace sluice
