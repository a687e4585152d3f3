// State shared by the connections of all io threads to one Redis node.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/log.h"
#include "base/mutex.h"
#include "store/redis/breaker.h"
#include "store/redis/server_status.h"

namespace sluice::redis {

struct ServerState {
  // `name` is the node's name in the log. The name is escaped, because another Redis node may
  // have sent it. `connections` is the number of connections, one for each io thread.
  // The node's metrics have `server_labels`. `metrics` must outlive this.
  ServerState(const std::string& name, std::size_t connections, MetricsRegistry& metrics,
              const MetricLabels& server_labels = {})
      : labels(server_labels),
        status(LogText(name), connections),
        breaker(LogText(name), metrics, labels) {}

  const MetricLabels labels;
  ServerStatus status;
  Breaker breaker;
};

// The states of a store's nodes, created on first use.
class Servers {
 public:
  // `labeled`: there may be several nodes, so their metrics carry a label.
  Servers(std::size_t connections, bool labeled, MetricsRegistry& metrics)
      : connections_(connections), labeled_(labeled), metrics_(metrics) {}

  ServerState& At(const Address& address) SLUICE_EXCLUDES(mutex_) {
    const std::string name = address.ToString();
    const MutexLock lock(mutex_);
    std::unique_ptr<ServerState>& server = servers_[name];
    if (!server) {
      const MetricLabels labels = labeled_ ? MetricLabels{{"server", name}} : MetricLabels();
      server = std::make_unique<ServerState>(name, connections_, metrics_, labels);
    }
    return *server;
  }

 private:
  const std::size_t connections_;
  const bool labeled_;
  MetricsRegistry& metrics_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<ServerState>> servers_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::redis
