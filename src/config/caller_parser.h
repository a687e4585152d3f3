// Reads the setting `callers` of a file of settings:
//
//   callers:
//     checkout: {token_file: /run/secrets/checkout, domains: [shop]}
//     billing: {identities: ["spiffe://shop/billing"], domains: [shop], may: [charge, refund]}
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

// Mistakes are appended with their places in `path`.
std::vector<Caller> ParseCallers(const YAML::Node& node, const std::string& path,
                                 std::vector<std::string>& mistakes);

}  // namespace sluice
