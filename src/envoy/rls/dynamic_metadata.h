// RateLimitResponse.dynamic_metadata: what was asked, and the metadata of the rules on the way.
//
// Thread-safe.
#pragma once

#include <span>

#include "api/wire_writer.h"
#include "envoy/rls/request.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

// Writes the field. Of metadata that have the same key, the later place's counts.
void WriteDynamicMetadata(const Request& request, std::span<const Place* const> passed,
                          WireWriter& to);

}  // namespace sluice::envoy
