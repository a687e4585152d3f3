// `sluice health`: whether a server is serving, for the probes of containers.

#include <fmt/format.h>

#include "client/client.h"
#include "tools/command.h"
#include "tools/server_options.h"

namespace sluice::tools {
namespace {

int Health(const ServerOptions& options) {
  const auto client = Connect(options.ToTarget());
  if (!client) return Fail(client.error());
  const auto serving = (*client)->IsServing(options.timeout);
  if (!serving) {
    FailCall((*client)->address(), (*client)->connected(), serving.error(), false);
    return kExitUnhealthy;
  }
  fmt::print("{}\n", *serving ? "serving" : "not serving");
  return *serving ? kExitDone : kExitUnhealthy;
}

void DeclareHealth(CLI::App& app, ServerOptions& options) {
  options.AddTo(app);
  app.footer(
      "Exit status: 0 serving, 1 not serving or no answer, 2 wrong arguments.\n"
      "Example: sluice health --addr unix:/run/sluice/grpc.sock");
}

}  // namespace

const Command kHealth = {"health", "Ask whether a server is serving",
                         Declare<ServerOptions, DeclareHealth, Health>};

}  // namespace sluice::tools
