// The servers that a command watches.
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

  // Adds the flags that all commands of the admin API have. Here, --addr can be repeated.
  void AddTo(CLI::App& app);

  // Watches the servers' admin APIs. Waits until each has answered or failed, at most for the
  // timeout. If none has answered by then, prints why and returns null.
  std::unique_ptr<FleetWatch> Watch() const;

 private:
  std::vector<AdminOptions> Servers() const;
  // A host name gives one target for each of its addresses. Names are looked up once.
  Result<std::vector<NamedTarget>> Targets() const;
};

}  // namespace sluice::tools
