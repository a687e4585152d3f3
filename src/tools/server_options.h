// The flags of every command that calls a server, and what is printed if no server answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/App.hpp>

#include "client/client.h"
#include "load/plan.h"

namespace sluice::tools {

struct ServerOptions {
  std::string address = "127.0.0.1:8081";
  Duration timeout = std::chrono::seconds(1);
  bool tls = false;
  std::string tls_ca, tls_certificate, tls_key;  // files; empty: none
  std::string token_file;

  void AddTo(CLI::App& app);

  // Reads the files. The error names the one that cannot be read.
  Result<ClientCredentials> Credentials() const;

  Result<std::unique_ptr<Client>> Connect() const;

  // Sets what a load needs to reach the server.
  Result<void> FillIn(load::Plan& plan) const;

 private:
  bool HasTls() const { return tls || !tls_ca.empty() || !tls_certificate.empty(); }
  Result<std::string> Token() const;
};

// Prints why nothing could be sent, and returns the exit status.
int FailBeforeCall(const Error& error);

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
