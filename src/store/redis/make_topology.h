// Creates the topology that a URL names.
#pragma once

#include <memory>

#include "store/redis/redis_url.h"
#include "store/redis/topology.h"

namespace sluice::redis {

std::unique_ptr<Topology> MakeTopology(const RedisUrl& url, TopologyContext context);

}  // namespace sluice::redis
