// The servers of a command that watches several.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "console/fleet_watch.h"
#include "tools/admin_call.h"

namespace sluice::tools {

struct FleetOptions {
  AdminOptions admin;
  std::vector<std::string> addresses;

  // The flags of all commands that call the admin API, with an --addr that can be repeated.
  void AddTo(CLI::App& app);

  // Watches the servers' admin APIs, and waits until each has answered or failed. If none answers
  // within the timeout, prints why and returns null.
  std::unique_ptr<FleetWatch> Watch() const;

 private:
  std::vector<AdminOptions> Servers() const;
  // For a name, those at each of its addresses, which are looked up once.
  Result<std::vector<NamedTarget>> Targets() const;
};

}  // namespace sluice::tools
