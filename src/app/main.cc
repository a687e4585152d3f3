// sluiced: settings, log, rules, then serve until SIGTERM or SIGINT. Exit status: 0 after a clean
// stop, 1 if it cannot run, 2 if settings or rules are wrong.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/server.h"
#include "app/version.h"
#include "base/log.h"
#include "config/rules_loader.h"
#include "service/grpc_server.h"

namespace sluice {
namespace {

enum ExitStatus { kStopped = 0, kCannotRun = 1, kMistaken = 2 };

ExitStatus Fail(ExitStatus status, const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return status;
}

// What asks the server to end. Blocked in every thread, so that main alone takes them.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int WaitFor(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

// The error holds every mistake, one a line.
Result<std::shared_ptr<const RuleIndex>> ReadRules(const Settings& settings) {
  LoadedRules loaded;
  if (settings.rules_directory.empty()) {
    spdlog::warn("rules: none (give --rules DIR); every request is unmatched");
  } else {
    loaded = LoadRules(settings.rules_directory);
  }
  if (!loaded.ok()) {
    std::vector<std::string> mistakes;
    for (const auto& error : loaded.errors) mistakes.push_back(error.ToString());
    return InvalidArgument(fmt::format("{}", fmt::join(mistakes, "\n")));
  }
  return RuleIndex::Build(std::move(loaded.rules),
                          {.unmatched = settings.unmatched, .fleet_share = settings.fleet_share});
}

ExitStatus Serve(const Settings& settings) {
  if (const auto log = SetUpLog(settings.log_level); !log) return Fail(kMistaken, log.error());
  RouteGrpcLog();
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t stop_signals = BlockStopSignals();

  const auto rules = ReadRules(settings);
  if (!rules) return Fail(kMistaken, rules.error());
  spdlog::info("rules: {} in force", rules.value()->size());
  const auto server = Server::Start(settings, *rules);
  if (!server) {
    const bool mistaken = server.error().code == ErrorCode::kInvalidArgument;
    return Fail(mistaken ? kMistaken : kCannotRun, server.error());
  }
  spdlog::info("ready grpc={} http={}", server.value()->grpc_address().ToString(),
               server.value()->http_address().ToString());

  const int signal = WaitFor(stop_signals);
  spdlog::info("{}: draining", sigabbrev_np(signal));
  server.value()->Stop(settings.drain);
  spdlog::info("stopped");
  return kStopped;
}

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

bool Has(const std::vector<std::string>& arguments, std::string_view flag) {
  return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
}

ExitStatus Main(const std::vector<std::string>& arguments) {
  if (Has(arguments, "--help") || Has(arguments, "-h")) {
    fmt::print(
        "sluiced: the rate-limit server. Flags override SLUICE_* variables, which override the "
        "file.\n\n{}  --help\n  --version\n",
        DescribeSettings());
    return kStopped;
  }
  if (Has(arguments, "--version")) {
    fmt::print("sluiced {}\n", kVersion);
    return kStopped;
  }
  const auto settings = ReadSettings(arguments, Environment());
  if (!settings) return Fail(kMistaken, settings.error());
  return Serve(*settings);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  return sluice::Main(std::vector<std::string>(argv + 1, argv + argc));
}
