// RateLimitResponse.dynamic_metadata: the request, and the metadata of the descriptors in rule
// files that its descriptors passed through.
//
// Thread-safe.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <span>

#include "envoy/rls/request.h"
#include "envoy/rules/guide.h"

namespace sluice::envoy {

// If several of them have metadata of the same key, the last one wins.
void FillDynamicMetadata(const Request& request, std::span<const TrieNode* const> passed,
                         google::protobuf::Struct& to);

}  // namespace sluice::envoy
