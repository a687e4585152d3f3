// Which node of a store owns a counter, and where the nodes are. A single server owns all counters.
//
// Immutable.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "store/redis/redis_url.h"

namespace sluice::redis {

class Topology {
 public:
  explicit Topology(RedisUrl server) : server_(std::move(server)) {}

  // Nodes are numbered from 0.
  std::size_t nodes() const { return 1; }
  const RedisUrl& UrlOf(std::size_t /*node*/) const { return server_; }
  std::size_t NodeOf(std::string_view /*key*/) const { return 0; }

 private:
  const RedisUrl server_;
};

}  // namespace sluice::redis
