// Warnings about what is valid in a rule, but probably a mistake.
//
// Thread-safe.
#pragma once

#include "config/config_value.h"
#include "match/rule.h"

namespace sluice {

// Warns at `value`, the node of `rule`, about
// - attributes of `per` that a matching request may lack, so that the rule is skipped, unless the
//   file says `missing`;
// - limits that never deny anything, because another one of the same list always denies first;
// - weights that are larger than what the limit can hold;
// - limits whose `prefetch` has no effect.
void WarnAbout(const ConfigValue& value, const Rule& rule);

}  // namespace sluice
