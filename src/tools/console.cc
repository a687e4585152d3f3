// `sluice console`: serves a page about servers to the browser of this machine.
#include <cstdint>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "console/console_server.h"
#include "tools/command.h"
#include "tools/explain_text.h"
#include "tools/fleet_options.h"
#include "tools/signal_queue.h"

namespace sluice::tools {
namespace {

struct ConsoleOptions {
  FleetOptions fleet;
  std::uint16_t port = 0;
};

std::string TextOf(const v1::ExplainRequest& explained, const v1::ExplainResponse& answer) {
  v1::CheckLimitRequest request;
  request.set_domain(explained.domain());
  *request.mutable_attributes() = explained.attributes();
  return ExplainText(request, answer, "");
}

int RunConsole(const ConsoleOptions& options) {
  SignalQueue signals;  // before any thread
  SetUpLog("warn");
  const auto watch = options.fleet.Watch();
  if (!watch) return kExitError;
  const auto console = ConsoleServer::Start(*watch, {.port = options.port,
                                                     .timeout = options.fleet.admin.server.timeout,
                                                     .explain_text = TextOf});
  if (!console) return Fail({{}, "--port: " + console.error().message});
  fmt::print("Open this in a browser of this machine; Ctrl-C ends it:\n    {}\n",
             (*console)->url());
  if (std::fflush(stdout) != 0) return kExitError;
  signals.WaitUntil(SteadyTime::max());
  return kExitDone;
}

void DeclareConsole(CLI::App& app, ConsoleOptions& options) {
  options.fleet.AddTo(app);
  app.remove_option(app.get_option("--json"));
  app.add_option("--port", options.port, "Port on 127.0.0.1 (default: any free port)")
      ->check(CLI::Range(0, 65535))
      ->type_name("PORT");
  app.footer(
      "The page is for this machine's browsers, and its URL has a random token. This command\n"
      "calls the servers, with its own rights.\n"
      "Exit status: 0 ended, 2 error.\n"
      "Example: sluice console --addr 10.0.0.1:8081 --addr 10.0.0.2:8081");
}

}  // namespace

const Command kConsole = {"console", "Show in a browser what servers decide, and why",
                          Declare<ConsoleOptions, DeclareConsole, RunConsole>};

}  // namespace sluice::tools
