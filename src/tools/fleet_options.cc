#include "tools/fleet_options.h"

#include <algorithm>
#include <utility>

#include "net/resolver.h"

namespace sluice::tools {

void FleetOptions::AddTo(CLI::App& app) {
  admin.AddTo(app);
  app.remove_option(app.get_option("--addr"));
  addresses = {admin.server.address};
  app.add_option(
         "--addr", addresses,
         "Server: host:port or unix:PATH; repeatable. If a host name has several addresses, "
         "each is a server")
      ->envname("SLUICE_ADDR")
      ->type_name("ADDRESS")
      ->check(IsAddress)
      ->allow_extra_args(false)
      ->capture_default_str();
}

// An address of this machine is kept as it is, because the admin socket is named after this
// address. A name that cannot be looked up is also kept: the attempt to connect reports the error.
std::vector<AdminOptions> FleetOptions::Servers() const {
  std::vector<AdminOptions> servers;
  AdminOptions server = admin;
  const auto add = [&](std::string text) {
    server.server.address = std::move(text);
    const bool known = std::any_of(servers.begin(), servers.end(), [&](const auto& it) {
      return it.server.address == server.server.address;
    });
    if (!known) servers.push_back(server);
  };
  for (const std::string& text : addresses) {
    const Address address = *Address::Parse(text);  // cannot fail: --addr accepts only addresses
    server.server.tls_server_name = admin.server.tls_server_name;
    const auto found = net::Resolver::SystemLookup(address);
    if (address.is_unix() || address.is_local() || !found || found->empty()) {
      add(text);
      continue;
    }
    if (server.server.tls_server_name.empty() && admin.address.empty()) {
      server.server.tls_server_name = address.host;
    }
    for (const net::Endpoint& endpoint : *found) add(endpoint.ToString());
  }
  return servers;
}

Result<std::vector<NamedTarget>> FleetOptions::Targets() const {
  const std::vector<AdminOptions> servers = Servers();
  if (servers.size() > 1 && !admin.address.empty()) {
    return InvalidArgument("--admin: belongs to one server, but --addr names several");
  }
  std::vector<NamedTarget> targets;
  for (const AdminOptions& server : servers) {
    auto target = server.ToTarget();
    if (!target) return target.error();
    const std::string& name = server.address.empty() ? server.server.address : server.address;
    targets.push_back({.name = name, .target = std::move(*target)});
  }
  return targets;
}

std::unique_ptr<FleetWatch> FleetOptions::Watch() const {
  auto targets = Targets();
  auto watch = targets ? FleetWatch::Start(std::move(*targets)) : targets.error();
  if (!watch) {
    FailBeforeAdminCall(watch.error());
    return nullptr;
  }
  const auto states = (*watch)->WaitForFrames(admin.server.timeout);
  const auto answers = [](const auto& state) { return state.last != nullptr; };
  if (std::any_of(states.begin(), states.end(), answers)) return std::move(*watch);
  const Error silent{ErrorCode::kDeadlineExceeded, "no answer within the timeout"};
  for (std::size_t i = 0; i < states.size(); ++i) {
    FailAdminCall(admin, (*watch)->servers()[i].target.address, states[i].connected,
                  states[i].error.value_or(silent));
  }
  return nullptr;
}

}  // namespace sluice::tools
