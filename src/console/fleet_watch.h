// Watches several servers.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/target.h"
#include "console/server_watch.h"
#include "net/io_threads.h"

namespace sluice {

// A server, and the operator's name for it.
struct NamedTarget {
  std::string name;
  Target target;
};

class FleetWatch {
 public:
  using States = std::vector<ServerWatch::State>;

  // If a TLS file is invalid, the error names the file.
  static Result<std::unique_ptr<FleetWatch>> Start(std::vector<NamedTarget> servers);
  ~FleetWatch();

  const std::vector<NamedTarget>& servers() const { return servers_; }

  // The states of the servers, in the order of servers().
  States Now() const;

  // Waits until each server has sent a frame or failed, but at most `at_most`. Then returns Now().
  States WaitForFrames(Duration at_most) const;

 private:
  explicit FleetWatch(std::vector<NamedTarget> servers) : servers_(std::move(servers)) {}

  const std::vector<NamedTarget> servers_;
  net::IoThreads io_{1};
  std::vector<std::unique_ptr<net::TlsClientContext>> tls_;
  std::vector<std::unique_ptr<ServerWatch>> watches_;
};

}  // namespace sluice
