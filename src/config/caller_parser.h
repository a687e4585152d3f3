// Parses the setting `callers` of the settings file:
//
//   callers:
//     checkout: {token_file: /run/secrets/checkout, domains: [shop]}
//     billing: {identities: ["uri:spiffe://shop/billing"], domains: [shop], may: [charge, refund]}
//     prometheus: {token_file: /run/secrets/prometheus, may: [metrics]}
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "core/caller.h"

namespace YAML {
class Node;
}

namespace sluice {

// Appends every mistake with its position in `path`.
std::vector<Caller> ParseCallers(const YAML::Node& node, const std::string& path,
                                 std::vector<std::string>& mistakes);

}  // namespace sluice
