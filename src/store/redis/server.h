// What the connections of all io threads to one Redis server share.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/mutex.h"
#include "store/redis/breaker.h"
#include "store/redis/server_status.h"

namespace sluice::redis {

struct Server {
  // `name` is for the log; `labels` are those of its metrics. There are `connections`, one for each
  // io thread. `metrics` must outlive the server.
  Server(const std::string& name, std::size_t connections, MetricsRegistry& metrics,
         const MetricLabels& server_labels = {})
      : labels(server_labels), status(name, connections), breaker(name, metrics, labels) {}

  const MetricLabels labels;
  ServerStatus status;
  Breaker breaker;
};

// The servers of a store, made when first asked for.
class Servers {
 public:
  // `labelled`: there may be several, so their metrics name them.
  Servers(std::size_t connections, bool labelled, MetricsRegistry& metrics)
      : connections_(connections), labelled_(labelled), metrics_(metrics) {}

  Server& At(const Address& address) SLUICE_EXCLUDES(mutex_) {
    const std::string name = address.ToString();
    const MutexLock lock(mutex_);
    std::unique_ptr<Server>& server = servers_[name];
    if (!server) {
      const MetricLabels labels = labelled_ ? MetricLabels{{"server", name}} : MetricLabels();
      server = std::make_unique<Server>(name, connections_, metrics_, labels);
    }
    return *server;
  }

 private:
  const std::size_t connections_;
  const bool labelled_;
  MetricsRegistry& metrics_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<Server>> servers_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::redis
