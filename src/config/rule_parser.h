// One item of `rules`.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "config/config_value.h"
#include "match/rule.h"

namespace sluice {

// Reports mistakes in `value`. After a mistake, only the rule's name may be used, and only if it is
// not empty.
Rule ParseRule(const ConfigValue& value);

// The words for OnStoreFailure, in the order of its values.
inline constexpr std::array<std::string_view, 4> kOnStoreFailures{"local", "allow", "deny",
                                                                  "error"};
OnStoreFailure ParseOnStoreFailure(const ConfigValue& value);

// The name of an attribute: 1 to 255 bytes. Empty if invalid.
std::string ParseAttributeName(const ConfigValue& value);

}  // namespace sluice
