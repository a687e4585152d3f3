// A command of `sluice`. main.cc lists all commands.
#pragma once

#include <functional>
#include <memory>

#include <CLI/App.hpp>

namespace sluice::tools {

// The exit statuses of commands.
inline constexpr int kExitDone = 0, kExitAllowed = 0;
inline constexpr int kExitDenied = 1, kExitMistakes = 1, kExitNone = 1, kExitUnhealthy = 1;
inline constexpr int kExitError = 2;

struct Command {
  const char* name;
  const char* description;
  // Declares the command's arguments on `app`. Returns a function that must be called after
  // parsing: it runs the command and returns the exit status.
  std::function<int()> (*declare)(CLI::App& app);
};

// Implements the `declare` of a command. `DeclareFlags` binds the command's arguments to options.
// `Run` runs the command with these options.
template <typename Options, void (*DeclareFlags)(CLI::App&, Options&), int (*Run)(const Options&)>
std::function<int()> Declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  DeclareFlags(app, *options);
  return [options] { return Run(*options); };
}

extern const Command kBench;
extern const Command kCheck;
extern const Command kConsole;
extern const Command kConvert;
extern const Command kExplain;
extern const Command kHealth;
extern const Command kHold;
extern const Command kReload;
extern const Command kReplay;
extern const Command kReset;
extern const Command kRules;
extern const Command kSettle;
extern const Command kTop;
extern const Command kValidate;

}  // namespace sluice::tools
