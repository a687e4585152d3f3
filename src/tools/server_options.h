// The flags of every command that talks to a server, and what to tell who finds none there.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <CLI/App.hpp>

#include "client/client.h"

namespace sluice::tools {

struct ServerOptions {
  std::string address = "127.0.0.1:8081";
  Duration timeout = std::chrono::seconds(1);

  void AddTo(CLI::App& app);
};

// A flag that takes an address, as text that Address::Parse reads.
CLI::Option* AddAddress(CLI::App& app, const std::string& flag, const std::string& description,
                        std::string& address);

// A flag that takes a duration, and gives it to `set`.
CLI::Option* AddDuration(CLI::App& app, const std::string& flag, const std::string& description,
                         std::function<void(Duration)> set);

// Prints that there is no server, why, and how to start one.
void PrintNoServer(const Address& address, std::string_view reason);

// Prints `error` of a call on `client`, and how to start a server if that is what is missing.
void PrintError(const Client& client, const Error& error);

}  // namespace sluice::tools
