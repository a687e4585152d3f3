// What the connections of all io threads to one Redis server share.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "store/redis/breaker.h"
#include "store/redis/server_status.h"

namespace sluice::redis {

struct Server {
  // `name` is for the log. There are `connections`, one for each io thread. `metrics` must outlive
  // the server.
  Server(const std::string& name, std::size_t connections, MetricsRegistry& metrics)
      : status(name, connections), breaker(name, metrics) {}

  ServerStatus status;
  Breaker breaker;
};

}  // namespace sluice::redis
