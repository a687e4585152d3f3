// RateLimitResponse.dynamic_metadata: the request, and the metadata of the places that its
// descriptors passed in the rule tree.
//
// Thread-safe.
#pragma once

#include <span>

#include "api/wire_writer.h"
#include "envoy/rls/request.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

// Writes the field. If several places have metadata of the same key, the last place wins.
void WriteDynamicMetadata(const Request& request, std::span<const Place* const> passed,
                          WireWriter& to);

}  // namespace sluice::envoy
