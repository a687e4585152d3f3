// `sluice`, the command-line tool: finds the command and runs it.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/log.h"
#include "config/diagnostic.h"
#include "tools/command.h"

namespace {

using sluice::tools::Command;

const Command* const kCommands[] = {
    &sluice::tools::kCheck,    &sluice::tools::kHold,    &sluice::tools::kSettle,
    &sluice::tools::kExplain,  &sluice::tools::kReset,   &sluice::tools::kRules,
    &sluice::tools::kReload,   &sluice::tools::kBench,   &sluice::tools::kReplay,
    &sluice::tools::kValidate, &sluice::tools::kConvert, &sluice::tools::kHealth,
    &sluice::tools::kTop,      &sluice::tools::kConsole,
};

// If the subcommand has a COMMAND argument, passes the words after `--` to it. Otherwise, the
// parser would treat these words as attributes.
void TakeCommand(CLI::App& app, std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) return;
  const auto named = app.get_subcommands(
      [&arguments](const CLI::App* sub) { return sub->get_name() == arguments.front(); });
  CLI::Option* command = named.empty() ? nullptr : named[0]->get_option_no_throw("COMMAND");
  if (command == nullptr) return;
  for (auto word = dashes + 1; word != arguments.end(); ++word) command->add_result(*word);
  arguments.erase(dashes, arguments.end());
}

// The flags of `app`, with their dashes.
std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  return sluice::DidYouMean(word, views);
}

// Finds the first unknown command or flag among the words that the parser could not use. Prints it
// with the nearest known word, if there is any. Returns whether there was an unknown word.
bool ReportUnknown(const CLI::App& app) {
  const auto called = app.get_subcommands();
  const CLI::App& command = called.empty() ? app : *called.front();
  std::vector<std::string> names;
  for (const Command* it : kCommands) names.emplace_back(it->name);
  for (const std::string& word : command.remaining()) {
    const bool is_flag = word.starts_with("--");
    if (!is_flag && !called.empty()) continue;
    const std::string flag = word.substr(0, word.find('='));
    const std::string hint = is_flag ? Suggestion(flag, FlagsOf(command)) : Suggestion(word, names);
    fmt::print(stderr, "unknown {} {}{}\nRun {} --help for more information.\n",
               is_flag ? "flag" : "command", is_flag ? flag : word, hint,
               called.empty() ? "sluice" : "sluice " + command.get_name());
    return true;
  }
  return false;
}

// Incomplete output is an error, so that a script does not use it as if it were complete.
int RunAndFlush(const std::function<int()>& run) {
  try {
    const int status = run();
    if (std::fflush(stdout) == 0) return status;
    std::perror("sluice: standard output");
  } catch (const std::system_error& error) {  // fmt::print cannot write
    std::fprintf(stderr, "sluice: %s\n", error.what());
  }
  return sluice::tools::kExitError;
}

}  // namespace

int main(int argc, char** argv) {
  sluice::SetUpCommandLog();
  CLI::App app("Command-line tool for Sluice servers.", "sluice");
  app.set_version_flag("--version", "sluice " SLUICE_VERSION);
  app.require_subcommand(0, 1);  // without a subcommand, main prints the help
  app.failure_message(CLI::FailureMessage::simple);

  std::vector<std::pair<CLI::App*, std::function<int()>>> commands;
  for (const Command* command : kCommands) {
    CLI::App* sub = app.add_subcommand(command->name, command->description);
    // Without a callback, CLI11 also reads environment variables for commands that are not called.
    sub->parse_complete_callback([] {});
    commands.emplace_back(sub, command->declare(*sub));
  }

  std::vector<std::string> arguments(argv + 1, argv + argc);
  TakeCommand(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // the parser expects reverse order
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (ReportUnknown(app)) return sluice::tools::kExitError;
    const int status = app.exit(error);
    if (error.what() == std::string_view("COMMAND is required")) {
      std::fputs("COMMAND comes after --, such as: -- tar -czf shop.tgz config\n", stderr);
    }
    return status == 0 ? 0 : sluice::tools::kExitError;
  }
  for (const auto& [sub, run] : commands) {
    if (sub->parsed()) return RunAndFlush(run);
  }
  std::fputs(app.help().c_str(), stderr);
  return sluice::tools::kExitError;
}
