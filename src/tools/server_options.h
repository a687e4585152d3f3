// The flags of every command that talks to a server, and what to tell who finds none there.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "client/client.h"

namespace sluice::tools {

struct ServerOptions {
  std::string address = "127.0.0.1:8081";
  Duration timeout = std::chrono::seconds(1);

  void AddTo(CLI::App& app);
};

// Prints `error` of a call on `client`, and how to start a server if that is what is missing.
void PrintError(const Client& client, const Error& error);

}  // namespace sluice::tools
