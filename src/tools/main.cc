// `sluice`, the command-line tool: finds the command and runs it.
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tools/command.h"

namespace {

using sluice::tools::Command;

const Command* const kCommands[] = {
    &sluice::tools::kCheck, &sluice::tools::kExplain, &sluice::tools::kReset,
    &sluice::tools::kRules, &sluice::tools::kReload,  &sluice::tools::kValidate,
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Asks a Sluice server, measures it, and looks into it.", "sluice");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(0, 1);  // that there is one, we say ourselves
  app.failure_message(CLI::FailureMessage::simple);

  std::vector<std::pair<CLI::App*, std::function<int()>>> commands;
  for (const Command* command : kCommands) {
    CLI::App* sub = app.add_subcommand(command->name, command->description);
    commands.emplace_back(sub, command->declare(*sub));
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : sluice::tools::kExitError;
  }
  for (const auto& [sub, run] : commands) {
    if (sub->parsed()) return run();
  }
  std::fputs(app.help().c_str(), stderr);
  return sluice::tools::kExitError;
}
