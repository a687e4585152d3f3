// A command of `sluice`: one file that defines it, one row in main.cc's table.
#pragma once

#include <functional>

#include <CLI/App.hpp>

namespace sluice::tools {

// What every command's exit status means.
inline constexpr int kExitDone = 0, kExitAllowed = 0;
inline constexpr int kExitDenied = 1, kExitMistakes = 1, kExitNone = 1;
inline constexpr int kExitError = 2;

struct Command {
  const char* name;
  const char* description;
  // Declares the command's arguments on `app`. What it returns runs once they are parsed, and
  // returns the exit status.
  std::function<int()> (*declare)(CLI::App& app);
};

extern const Command kBench;
extern const Command kCheck;
extern const Command kExplain;
extern const Command kHold;
extern const Command kReload;
extern const Command kReset;
extern const Command kRules;
extern const Command kValidate;

}  // namespace sluice::tools
