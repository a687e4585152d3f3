#include "console/fleet_watch.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "client/http2_connection.h"

namespace sluice {

Result<std::unique_ptr<FleetWatch>> FleetWatch::Start(std::vector<NamedTarget> servers) {
  std::unique_ptr<FleetWatch> fleet(new FleetWatch(std::move(servers)));
  fleet->io_.Start();
  for (const NamedTarget& server : fleet->servers_) {
    auto tls = LoadTls(server.target);
    if (!tls) return tls.error();
    fleet->tls_.push_back(std::move(*tls));
    fleet->watches_.push_back(std::make_unique<ServerWatch>(fleet->io_, server.name, server.target,
                                                            fleet->tls_.back().get()));
  }
  return fleet;
}

FleetWatch::~FleetWatch() {
  watches_.clear();
  io_.RunOn(0, [](net::EpollLoop&) {});  // waits until disposed calls are destroyed
  io_.Stop();
}

FleetWatch::States FleetWatch::Now() const {
  States states;
  for (const auto& watch : watches_) states.push_back(watch->Now());
  return states;
}

FleetWatch::States FleetWatch::WaitForFrames(Duration at_most) const {
  const SteadyTime deadline = SteadyNow() + at_most;
  const auto waits = [](const auto& it) { return !it.last && !it.error; };
  States states = Now();
  while (SteadyNow() < deadline && std::any_of(states.begin(), states.end(), waits)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    states = Now();
  }
  return states;
}

}  // namespace sluice
